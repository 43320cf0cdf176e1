// The backward kernel's code. Teams: see attn_cuda_points.cuh.
#pragma once

#include "attn/attn_cuda_points.cuh"

namespace deform::kernels::cuda {

// By a block of kAttnThreads; shared memory for 4 arrays of every team. A is the type that value's
// gradient is added up in.
//
// Softmax's gradient needs the sum over all points of a group. Where they don't fit in shared
// memory at once, a first pass over them finds the sum.
template <class T, class A, int kWidth>
__device__ __forceinline__ void attn_backward_block(const AttnCudaArguments& a,
                                                    const AttnCudaGradients& to, const Teams& by) {
  using R = Real<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const int teams = kAttnThreads / by.lanes;
  const int lane = static_cast<int>(threadIdx.x) % by.lanes;
  const int team = static_cast<int>(threadIdx.x) / by.lanes;
  const TeamArrays<R> placed{reinterpret_cast<R*>(shared) + team, teams, by.chunk};
  const int points = static_cast<int>(a.grid.points);
  const int width = static_cast<int>(a.width), height = static_cast<int>(a.height);
  const int64_t row_stride = a.groups * a.channels;
  const R spread = static_cast<R>(a.grid.spread);
  const bool two_passes = a.softmax && points > by.chunk;
  // Bounds hold for whole blocks: all threads of a warp reach each of its barriers.
  for (int64_t first_task = int64_t{blockIdx.x} * teams; first_task < by.tasks;
       first_task += int64_t{gridDim.x} * teams) {
    const bool active = first_task + team < by.tasks;
    const AttnTask<R> task(a, active ? first_task + team : 0);
    Normaliser<R> normaliser{R(0), R(1)};
    if (a.softmax) {
      normaliser = team_normaliser<R>(a, task.first_triple, active, lane, by.lanes);
    }
    const int64_t first_element =
        task.batch * a.height * a.width * row_stride + task.group * a.channels;
    const T* image = static_cast<const T*>(a.value) + first_element;
    A* sums = static_cast<A*>(to.value) + first_element;
    const T* of_output =
        static_cast<const T*>(to.output) + task.output * row_stride + task.group * a.channels;
    R gradient[kWidth] = {};
    int64_t loaded = -1;  // the channel that `gradient` starts at
    R mean = 0;           // of the derivatives by normalised weights, weighted
    for (int pass = two_passes ? 0 : 1; pass < 2; ++pass) {
      const bool scatter = pass == 1;
      for (int first = 0; first < points; first += by.chunk) {
        const int count = min(by.chunk, points - first);
        __syncwarp();  // until the points before have been read
        if (active) place_points(a, task, normaliser, first, count, lane, by.lanes, placed);
        __syncwarp();
        for (int k = 0; k < count; ++k) {
          const R x = active ? placed.x(k) : R(-1), y = active ? placed.y(k) : R(-1);
          const R weight = active ? placed.weight(k) : R(0);
          const bool counted = counts(a, x, y);
          PointGradient<R> point{R(0), R(0), R(0)};
          if (counted) {
            const Corners<R> c(x, y, width, height);
            const R to_left = R(1) - c.to_right, to_top = R(1) - c.to_bottom;
            R top_left = 0, top_right = 0, bottom_left = 0, bottom_right = 0;
            for (int64_t channel = lane * kWidth; channel < a.channels;
                 channel += by.lanes * kWidth) {
              if (channel != loaded) {
                const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(of_output + channel);
#pragma unroll
                for (int i = 0; i < kWidth; ++i) gradient[i] = widen(pack.element[i]);
                loaded = channel;
              }
              const auto visit = [&](int pixel, R share) {
                const int64_t element = pixel * row_stride + channel;
                return visit_corner(image + element, sums + element, weight * share, gradient,
                                    scatter);
              };
              if (c.has_top && c.has_left) {
                top_left += visit(c.top + c.left, to_top * to_left);
              }
              if (c.has_top && c.has_right) {
                top_right += visit(c.top + c.right, to_top * c.to_right);
              }
              if (c.has_bottom && c.has_left) {
                bottom_left += visit(c.bottom + c.left, c.to_bottom * to_left);
              }
              if (c.has_bottom && c.has_right) {
                bottom_right += visit(c.bottom + c.right, c.to_bottom * c.to_right);
              }
            }
            const R upper = to_left * top_left + c.to_right * top_right;
            const R lower = to_left * bottom_left + c.to_right * bottom_right;
            point.by_weight = to_top * upper + c.to_bottom * lower;
            point.by_x =
                to_top * (top_right - top_left) + c.to_bottom * (bottom_right - bottom_left);
            point.by_y = lower - upper;
          }
          point.by_weight = team_sum(point.by_weight, by.lanes);
          if (pass == 0 || !two_passes) mean += weight * point.by_weight;
          if (!scatter) continue;
          point.by_x = team_sum(point.by_x, by.lanes);
          point.by_y = team_sum(point.by_y, by.lanes);
          __syncwarp();  // until all have read the place that the gradient takes
          if (lane == 0 && active) {
            // The weight of a point that doesn't count may be anything.
            const R by_place = counted ? weight * spread : R(0);
            placed.x(k) = point.by_x * by_place;
            placed.y(k) = point.by_y * by_place;
            placed.by_weight(k) = point.by_weight;
          }
        }
        if (!scatter) continue;
        __syncwarp();
        for (int k = lane; active && k < count; k += by.lanes) {
          const R by_weight =
              a.softmax ? placed.weight(k) * (placed.by_weight(k) - mean) : placed.by_weight(k);
          const int64_t element = task.first_triple + int64_t{3} * (first + k);
          store_as(to.offset_mask, a.offset_dtype, element, placed.x(k));
          store_as(to.offset_mask, a.offset_dtype, element + 1, placed.y(k));
          store_as(to.offset_mask, a.offset_dtype, element + 2, by_weight);
        }
      }
    }
  }
}

}  // namespace deform::kernels::cuda
