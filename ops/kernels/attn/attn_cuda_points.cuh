// The points of single-scale deformable sampling on the device, for the kernels of both directions.
//
// A team (common/teams_cuda.cuh) works on one output and group, each thread on channels of its own.
// It places the group's points together, in shared memory, as many at once as that holds; then each
// thread goes over all of them.
#pragma once

#include "attn/attn_cuda.h"
#include "common/bilinear_cuda.cuh"
#include "common/elements_cuda.cuh"
#include "common/teams_cuda.cuh"

namespace deform::kernels::cuda {

constexpr int kAttnThreads = 128;
// One output and group.
template <class R>
struct AttnTask {
  int64_t output, group, batch;
  int64_t first_triple;  // element of offset_mask
  R x, y;                // the output's place

  __device__ AttnTask(const AttnCudaArguments& a, int64_t task) {
    output = task / a.groups;
    group = task - output * a.groups;
    const int64_t row = output / a.out_width;
    batch = row / a.out_height;
    const int64_t ox = output - row * a.out_width;
    const int64_t oy = row - batch * a.out_height;
    first_triple = output * a.row_elements + group * a.grid.points * 3;
    x = static_cast<R>(ox * a.grid.stride_w) + static_cast<R>(a.grid.start_x);
    y = static_cast<R>(oy * a.grid.stride_h) + static_cast<R>(a.grid.start_y);
  }
};

// How logits become weights: exp(logit - largest) * scale.
template <class R>
struct Normaliser {
  R largest, scale;
};

// By the whole warp, teams without a task too.
template <class R>
__device__ inline Normaliser<R> team_normaliser(const AttnCudaArguments& a, int64_t first_triple,
                                                bool active, int lane, int lanes) {
  const int points = active ? static_cast<int>(a.grid.points) : 0;
  const auto logit = [&](int k) {
    return load_as<R>(a.offset_mask, a.offset_dtype, first_triple + int64_t{3} * k + 2);
  };
  R largest = -static_cast<R>(INFINITY);
  // fmax drops NaN, but the exponential of the NaN brings it back.
  for (int k = lane; k < points; k += lanes) largest = fmax(largest, logit(k));
  for (int step = lanes / 2; step > 0; step /= 2) {
    largest = fmax(largest, __shfl_xor_sync(kWholeWarp, largest, step));
  }
  R total = 0;
  for (int k = lane; k < points; k += lanes) total += exp(logit(k) - largest);
  return {largest, R(1) / team_sum(total, lanes)};
}

// Places points [first, first + count) of the team's task.
template <class R>
__device__ inline void place_points(const AttnCudaArguments& a, const AttnTask<R>& task,
                                    const Normaliser<R>& normaliser, int first, int count, int lane,
                                    int lanes, const TeamArrays<R>& placed) {
  const R spread = static_cast<R>(a.grid.spread);
  const int kernel_h = static_cast<int>(a.grid.kernel_h);
  for (int k = lane; k < count; k += lanes) {
    const int64_t element = task.first_triple + int64_t{3} * (first + k);
    const int point = first + k + (first + k >= a.grid.dropped ? 1 : 0);
    const int column = point / kernel_h;
    const int row = point - column * kernel_h;
    const R grid_x = task.x + static_cast<R>(column) * static_cast<R>(a.grid.step_x);
    const R grid_y = task.y + static_cast<R>(row) * static_cast<R>(a.grid.step_y);
    const R weight = load_as<R>(a.offset_mask, a.offset_dtype, element + 2);
    placed.x(k) = grid_x + load_as<R>(a.offset_mask, a.offset_dtype, element) * spread;
    placed.y(k) = grid_y + load_as<R>(a.offset_mask, a.offset_dtype, element + 1) * spread;
    placed.weight(k) = a.softmax ? exp(weight - normaliser.largest) * normaliser.scale : weight;
  }
}

template <class R>
__device__ inline bool counts(const AttnCudaArguments& a, R x, R y) {
  return x > R(-1) && x < static_cast<R>(a.width) && y > R(-1) && y < static_cast<R>(a.height);
}

}  // namespace deform::kernels::cuda
