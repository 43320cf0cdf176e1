// The forward kernel's code. Teams: see attn_cuda_points.cuh.
#pragma once

#include "attn/attn_cuda_points.cuh"

namespace deform::kernels::cuda {

template <class T, int kWidth>
__device__ inline void add_pixel(const T* pixel, Real<T> weight, Real<T> (&sum)[kWidth]) {
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(pixel);
#pragma unroll
  for (int c = 0; c < kWidth; ++c) sum[c] += weight * widen(pack.element[c]);
}

// kWidth channels of a point that counts; `image` is their first pixel. A corner past the border is
// read from its neighbour within, with weight 0.
template <class T, int kWidth>
__device__ inline void add_point(const AttnCudaArguments& a, const T* image, int64_t row_stride,
                                 Real<T> x, Real<T> y, Real<T> weight, Real<T> (&sum)[kWidth]) {
  using R = Real<T>;
  const Corners<R> c(x, y, static_cast<int>(a.width), static_cast<int>(a.height));
  const R left = c.has_left ? R(1) - c.to_right : R(0);
  const R right = c.has_right ? c.to_right : R(0);
  const R top = c.has_top ? weight * (R(1) - c.to_bottom) : R(0);
  const R bottom = c.has_bottom ? weight * c.to_bottom : R(0);
  add_pixel(image + (c.top + c.left) * row_stride, top * left, sum);
  add_pixel(image + (c.top + c.right) * row_stride, top * right, sum);
  add_pixel(image + (c.bottom + c.left) * row_stride, bottom * left, sum);
  add_pixel(image + (c.bottom + c.right) * row_stride, bottom * right, sum);
}

// By a block of kAttnThreads; shared memory for 3 arrays of every team.
template <class T, int kWidth>
__device__ __forceinline__ void attn_block(const AttnCudaArguments& a, void* output,
                                           const Teams& by) {
  using R = Real<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const int teams = kAttnThreads / by.lanes;
  const int lane = static_cast<int>(threadIdx.x) % by.lanes;
  const int team = static_cast<int>(threadIdx.x) / by.lanes;
  const TeamArrays<R> placed{reinterpret_cast<R*>(shared) + team, teams, by.chunk};
  const int points = static_cast<int>(a.grid.points);
  const int64_t row_stride = a.groups * a.channels;
  // Bounds hold for whole blocks: all threads of a warp reach each of its barriers.
  for (int64_t first_task = int64_t{blockIdx.x} * teams; first_task < by.tasks;
       first_task += int64_t{gridDim.x} * teams) {
    const bool active = first_task + team < by.tasks;
    const AttnTask<R> task(a, active ? first_task + team : 0);
    Normaliser<R> normaliser{R(0), R(1)};
    if (a.softmax) {
      normaliser = team_normaliser<R>(a, task.first_triple, active, lane, by.lanes);
    }
    for (int64_t block = 0; block < a.channels; block += by.lanes * kWidth) {
      const int64_t channel = block + lane * kWidth;
      const bool mine = active && channel < a.channels;
      const T* image = static_cast<const T*>(a.value) +
                       task.batch * a.height * a.width * row_stride + task.group * a.channels +
                       channel;
      R sum[kWidth] = {};
      for (int first = 0; first < points; first += by.chunk) {
        const int count = min(by.chunk, points - first);
        if (block == 0 || points > by.chunk) {
          __syncwarp();  // until the points before have been read
          if (active) {
            place_points(a, task, normaliser, first, count, lane, by.lanes, placed);
          }
          __syncwarp();
        }
        if (!mine) continue;
        for (int k = 0; k < count; ++k) {
          const R x = placed.x(k), y = placed.y(k);
          if (counts(a, x, y)) add_point(a, image, row_stride, x, y, placed.weight(k), sum);
        }
      }
      if (!mine) continue;
      Pack<T, kWidth> out;
#pragma unroll
      for (int c = 0; c < kWidth; ++c) out.element[c] = narrow<T>(sum[c]);
      T* to =
          static_cast<T*>(output) + task.output * row_stride + task.group * a.channels + channel;
      *reinterpret_cast<Pack<T, kWidth>*>(to) = out;
    }
  }
}

}  // namespace deform::kernels::cuda
