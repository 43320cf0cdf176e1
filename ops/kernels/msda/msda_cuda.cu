#include <cuda_runtime.h>

#include <cmath>
#include <limits>

#include "common/elements_cuda.cuh"
#include "msda/msda_cuda.h"

namespace deform::kernels {
namespace cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLevelsAtOnce = 64;  // that shared memory holds; more are taken in turns

template <class R>
struct Level {
  R width, height;
  int int_width, int_height, first_row;
};

__device__ int64_t index_at(const void* table, bool is_int64, int64_t i) {
  return is_int64 ? static_cast<const int64_t*>(table)[i] : static_cast<const int32_t*>(table)[i];
}

template <class R>
__device__ Level<R> read_level(const MsdaCudaArguments& a, int64_t level) {
  const int64_t height = index_at(a.shapes, a.shapes_are_int64, 2 * level);
  const int64_t width = index_at(a.shapes, a.shapes_are_int64, 2 * level + 1);
  const int64_t first_row = index_at(a.first_row, a.first_row_is_int64, level);
  // Nothing on the host has looked at these numbers. On a level of width -1 no point counts: none
  // has -1 < x < -1.
  const bool usable = height >= 1 && width >= 1 && height <= a.rows && width <= a.rows &&
                      first_row >= 0 && first_row <= a.rows - height * width;
  if (!usable) return {R(-1), R(-1), 0, 0, 0};
  return {static_cast<R>(width), static_cast<R>(height), static_cast<int>(width),
          static_cast<int>(height), static_cast<int>(first_row)};
}

template <class T, int kWidth>
__device__ void add_pixel(const T* pixel, Real<T> weight, Real<T> (&sum)[kWidth]) {
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(pixel);
#pragma unroll
  for (int c = 0; c < kWidth; ++c) sum[c] += weight * widen(pack.element[c]);
}

// One thread for kWidth channels of one query and head. `image` is that head's and channels' first
// pixel. A corner past the border is read from its neighbour within, with weight 0.
template <class T, int kWidth>
__device__ void add_point(const T* image, int64_t row_stride, const Level<Real<T>>& level,
                          Real<T> x, Real<T> y, Real<T> share, Real<T> (&sum)[kWidth]) {
  using R = Real<T>;
  if (!(x > R(-1) && x < level.width && y > R(-1) && y < level.height)) return;
  const R left = floor(x), top = floor(y);
  const int x0 = static_cast<int>(left), y0 = static_cast<int>(top);
  const int x1 = x0 + 1, y1 = y0 + 1;
  const R w_left = x0 >= 0 ? R(1) - (x - left) : R(0);
  const R w_right = x1 < level.int_width ? x - left : R(0);
  const R w_top = y0 >= 0 ? share * (R(1) - (y - top)) : R(0);
  const R w_bottom = y1 < level.int_height ? share * (y - top) : R(0);
  const int column0 = max(x0, 0), column1 = min(x1, level.int_width - 1);
  const int64_t row0 = level.first_row + max(y0, 0) * level.int_width;
  const int64_t row1 = level.first_row + min(y1, level.int_height - 1) * level.int_width;
  add_pixel(image + (row0 + column0) * row_stride, w_top * w_left, sum);
  add_pixel(image + (row0 + column1) * row_stride, w_top * w_right, sum);
  add_pixel(image + (row1 + column0) * row_stride, w_bottom * w_left, sum);
  add_pixel(image + (row1 + column1) * row_stride, w_bottom * w_right, sum);
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    msda_kernel(const MsdaCudaArguments a, const int64_t threads) {
  using R = Real<T>;
  __shared__ Level<R> table[kLevelsAtOnce];
  const int64_t packs = a.channels / kWidth;
  const int64_t row_stride = a.heads * a.channels;
  const int64_t points = a.levels * a.points;
  const int64_t grid_threads = static_cast<int64_t>(gridDim.x) * kThreads;
  // The bound holds for whole blocks: every thread reaches each barrier.
  for (int64_t block = static_cast<int64_t>(blockIdx.x) * kThreads; block < threads;
       block += grid_threads) {
    const int64_t thread = block + threadIdx.x;
    const bool active = thread < threads;
    const int64_t query_head = active ? thread / packs : 0;
    const int64_t channel = active ? thread % packs * kWidth : 0;
    const int64_t head = query_head % a.heads;
    const int64_t batch = query_head / (a.heads * a.queries);
    const int64_t first_point = query_head * points;
    const T* image =
        static_cast<const T*>(a.value) + batch * a.rows * row_stride + head * a.channels + channel;

    R largest = 0, total = 0;
    if (a.softmax) {
      largest = -static_cast<R>(INFINITY);
      for (int64_t p = 0; active && p < points; ++p) {
        // fmax drops NaN, but the exponential of the NaN brings it back.
        largest = fmax(largest, load_as<R>(a.weights, a.weights_dtype, first_point + p));
      }
    }
    R sum[kWidth] = {};
    for (int64_t first_level = 0; first_level < a.levels; first_level += kLevelsAtOnce) {
      const int levels =
          static_cast<int>(min(static_cast<int64_t>(kLevelsAtOnce), a.levels - first_level));
      __syncthreads();
      for (int l = threadIdx.x; l < levels; l += kThreads) {
        table[l] = read_level<R>(a, first_level + l);
      }
      __syncthreads();
      if (!active) continue;
      int64_t p = first_point + first_level * a.points;
      for (int l = 0; l < levels; ++l) {
        const Level<R> level = table[l];
        for (int64_t k = 0; k < a.points; ++k, ++p) {
          R weight = load_as<R>(a.weights, a.weights_dtype, p);
          if (a.softmax) {
            weight = exp(weight - largest);
            total += weight;
          }
          const R x = load_as<R>(a.locations, a.locations_dtype, 2 * p) * level.width - R(0.5);
          const R y = load_as<R>(a.locations, a.locations_dtype, 2 * p + 1) * level.height - R(0.5);
          add_point(image, row_stride, level, x, y, weight, sum);
        }
      }
    }
    if (active) {
      const R scale = a.softmax ? R(1) / total : R(1);
      Pack<T, kWidth> out;
#pragma unroll
      for (int c = 0; c < kWidth; ++c) out.element[c] = narrow<T>(sum[c] * scale);
      T* to = static_cast<T*>(a.output) + query_head * a.channels + channel;
      *reinterpret_cast<Pack<T, kWidth>*>(to) = out;
    }
  }
}

template <class T, int kWidth>
void launch(const MsdaCudaArguments& a, cudaStream_t stream) {
  const int64_t threads = a.batch * a.queries * a.heads * (a.channels / kWidth);
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  constexpr int64_t kMostBlocks = std::numeric_limits<int>::max();
  msda_kernel<T, kWidth>
      <<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks), kThreads, 0, stream>>>(
          a, threads);
}

template <class T, int kWidth>
bool fits(const MsdaCudaArguments& a) {
  const auto misplaced = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kWidth) != 0;
  };
  return a.channels % kWidth == 0 && !misplaced(a.value) && !misplaced(a.output);
}

// 16 bytes a thread where the channels allow, else 4 bytes, else one element.
template <class T>
void launch(const MsdaCudaArguments& a, cudaStream_t stream) {
  constexpr int kWide = 16 / sizeof(T);
  constexpr int kMiddle = sizeof(T) == 2 ? 2 : 1;
  if (fits<T, kWide>(a)) return launch<T, kWide>(a, stream);
  if (fits<T, kMiddle>(a)) return launch<T, kMiddle>(a, stream);
  launch<T, 1>(a, stream);
}

}  // namespace
}  // namespace cuda

const char* msda_cuda(const MsdaCudaArguments& arguments, int device, CUstream_st* stream) {
  // This library has a CUDA runtime of its own, whose idea of the current device may be an older
  // one.
  const cudaError_t selected = cudaSetDevice(device);
  if (selected != cudaSuccess) return cudaGetErrorString(selected);
  switch (arguments.value_dtype) {
    case Dtype::kFloat32:
      cuda::launch<float>(arguments, stream);
      break;
    case Dtype::kFloat16:
      cuda::launch<__half>(arguments, stream);
      break;
    case Dtype::kBFloat16:
      cuda::launch<__nv_bfloat16>(arguments, stream);
      break;
    case Dtype::kFloat64:
      cuda::launch<double>(arguments, stream);
      break;
  }
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess ? nullptr : cudaGetErrorString(launched);
}

}  // namespace deform::kernels
