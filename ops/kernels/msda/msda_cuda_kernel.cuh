// The forward kernel's code for any call: one thread for some channels of one query and head.
#pragma once

#include "common/bilinear_cuda.cuh"
#include "msda/msda_cuda_points.cuh"

namespace deform::kernels::cuda {

constexpr int kMsdaThreads = 256;

// By a block of kMsdaThreads; `threads` is how many have work.
template <class T, int kWidth>
__device__ __forceinline__ void msda_block(const MsdaCudaArguments& a, void* output,
                                           int64_t threads) {
  using R = Real<T>;
  __shared__ Level<R> table[kLevelsAtOnce];
  const int64_t packs = a.channels / kWidth;
  const int64_t row_stride = a.heads * a.channels;
  const int64_t points = a.levels * a.points;
  const int64_t grid_threads = static_cast<int64_t>(gridDim.x) * kMsdaThreads;
  // The bound holds for whole blocks: every thread reaches each barrier.
  for (int64_t block = static_cast<int64_t>(blockIdx.x) * kMsdaThreads; block < threads;
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
      for (int l = threadIdx.x; l < levels; l += kMsdaThreads) {
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
      T* to = static_cast<T*>(output) + query_head * a.channels + channel;
      *reinterpret_cast<Pack<T, kWidth>*>(to) = out;
    }
  }
}

}  // namespace deform::kernels::cuda
