// The backward kernel's code.
//
// A team works on one query and head, each thread on channels of its own. The team places the
// points together, in shared memory, as many at once as that holds; then each thread goes over all
// of them and adds its channels' part to value's gradient, and the team adds up what the points'
// own gradients need.
#pragma once

#include "common/bilinear_cuda.cuh"
#include "common/teams_cuda.cuh"
#include "msda/msda_cuda_points.cuh"

namespace deform::kernels::cuda {

constexpr int kMsdaBackwardThreads = 128;

// The block's levels: the first ones from shared memory.
template <class R>
struct BlockLevels {
  const Level<R>* table;

  __device__ Level<R> at(const MsdaCudaArguments& a, int level) const {
    return level < kLevelsAtOnce ? table[level] : read_level<R>(a, level);
  }
};

// How logits become weights: exp(logit - largest) * scale.
template <class R>
struct Normaliser {
  R largest, scale;
};

// By the whole warp, teams without a task (`points` 0) too.
template <class R>
__device__ inline Normaliser<R> team_normaliser(const MsdaCudaArguments& a, int64_t first_point,
                                                int points, int lane, int lanes) {
  const auto logit = [&](int k) { return load_as<R>(a.weights, a.weights_dtype, first_point + k); };
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

// By a block of kMsdaBackwardThreads; dynamic shared memory for 4 arrays of every team. A is the
// type that value's gradient is added up in.
//
// Softmax's gradient needs the sum over all points. Where they don't fit in shared memory at once,
// a first pass over them finds the sum.
template <class T, class A, int kWidth>
__device__ __forceinline__ void msda_backward_block(const MsdaCudaArguments& a,
                                                    const MsdaCudaGradients& to, const Teams& by) {
  using R = Real<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Level<R> table[kLevelsAtOnce];
  for (int l = threadIdx.x; l < kLevelsAtOnce && l < a.levels; l += kMsdaBackwardThreads) {
    table[l] = read_level<R>(a, l);
  }
  __syncthreads();
  const BlockLevels<R> levels{table};
  const int teams = kMsdaBackwardThreads / by.lanes;
  const int lane = static_cast<int>(threadIdx.x) % by.lanes;
  const int team = static_cast<int>(threadIdx.x) / by.lanes;
  const TeamArrays<R> placed{reinterpret_cast<R*>(shared) + team, teams, by.chunk};
  const int points_of_level = static_cast<int>(a.points);
  const int points = static_cast<int>(a.levels) * points_of_level;
  const int64_t row_stride = a.heads * a.channels;
  const bool two_passes = a.softmax && points > by.chunk;
  // Bounds hold for whole blocks: all threads of a warp reach each of its barriers.
  for (int64_t first_task = int64_t{blockIdx.x} * teams; first_task < by.tasks;
       first_task += int64_t{gridDim.x} * teams) {
    const bool active = first_task + team < by.tasks;
    const int64_t query_head = active ? first_task + team : 0;
    const int64_t first_point = query_head * points;
    Normaliser<R> normaliser{R(0), R(1)};
    if (a.softmax) {
      normaliser = team_normaliser<R>(a, first_point, active ? points : 0, lane, by.lanes);
    }
    const int64_t first_element = query_head / (a.heads * a.queries) * a.rows * row_stride +
                                  query_head % a.heads * a.channels;
    const T* image = static_cast<const T*>(a.value) + first_element;
    A* sums = static_cast<A*>(to.value) + first_element;
    const T* of_output = static_cast<const T*>(to.output) + query_head * a.channels;
    R gradient[kWidth] = {};
    int64_t loaded = -1;  // the channel that `gradient` starts at
    R mean = 0;           // of the derivatives by normalised weights, weighted
    for (int pass = two_passes ? 0 : 1; pass < 2; ++pass) {
      const bool scatter = pass == 1;
      for (int first = 0; first < points; first += by.chunk) {
        const int count = min(by.chunk, points - first);
        __syncwarp();  // until the points before have been read
        for (int k = lane; active && k < count; k += by.lanes) {
          const int64_t point = first_point + first + k;
          const Level<R> level = levels.at(a, (first + k) / points_of_level);
          const R weight = load_as<R>(a.weights, a.weights_dtype, point);
          placed.x(k) =
              load_as<R>(a.locations, a.locations_dtype, 2 * point) * level.width - R(0.5);
          placed.y(k) =
              load_as<R>(a.locations, a.locations_dtype, 2 * point + 1) * level.height - R(0.5);
          placed.weight(k) =
              a.softmax ? exp(weight - normaliser.largest) * normaliser.scale : weight;
        }
        __syncwarp();
        int level_index = first / points_of_level;
        int left_on_level = points_of_level - first % points_of_level;
        Level<R> level = levels.at(a, level_index);
        for (int k = 0; k < count; ++k, --left_on_level) {
          if (left_on_level == 0) {
            level = levels.at(a, ++level_index);
            left_on_level = points_of_level;
          }
          const R x = active ? placed.x(k) : R(-1), y = active ? placed.y(k) : R(-1);
          const R weight = active ? placed.weight(k) : R(0);
          const bool counted = counts(level, x, y);
          R by_weight = 0, by_x = 0, by_y = 0;  // of this thread's channels, then of all
          if (counted) {
            const Corners<R> c(x, y, level.int_width, level.int_height);
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
              const auto visit = [&](int line, int column, R share) {
                const int64_t element = (level.first_row + line + column) * row_stride + channel;
                return visit_corner(image + element, sums + element, weight * share, gradient,
                                    scatter);
              };
              if (c.has_top && c.has_left) top_left += visit(c.top, c.left, to_top * to_left);
              if (c.has_top && c.has_right) {
                top_right += visit(c.top, c.right, to_top * c.to_right);
              }
              if (c.has_bottom && c.has_left) {
                bottom_left += visit(c.bottom, c.left, c.to_bottom * to_left);
              }
              if (c.has_bottom && c.has_right) {
                bottom_right += visit(c.bottom, c.right, c.to_bottom * c.to_right);
              }
            }
            const R upper = to_left * top_left + c.to_right * top_right;
            const R lower = to_left * bottom_left + c.to_right * bottom_right;
            by_weight = to_top * upper + c.to_bottom * lower;
            by_x = to_top * (top_right - top_left) + c.to_bottom * (bottom_right - bottom_left);
            by_y = lower - upper;
          }
          by_weight = team_sum(by_weight, by.lanes);
          if (pass == 0 || !two_passes) mean += weight * by_weight;
          if (!scatter) continue;
          by_x = team_sum(by_x, by.lanes);
          by_y = team_sum(by_y, by.lanes);
          __syncwarp();  // until all have read the place that the gradient takes
          if (lane == 0 && active) {
            // The weight of a point that doesn't count may be anything.
            placed.x(k) = counted ? by_x * weight * level.width : R(0);
            placed.y(k) = counted ? by_y * weight * level.height : R(0);
            placed.by_weight(k) = by_weight;
          }
        }
        if (!scatter) continue;
        __syncwarp();
        for (int k = lane; active && k < count; k += by.lanes) {
          const int64_t point = first_point + first + k;
          const R by_weight =
              a.softmax ? placed.weight(k) * (placed.by_weight(k) - mean) : placed.by_weight(k);
          store_as(to.locations, a.locations_dtype, 2 * point, placed.x(k));
          store_as(to.locations, a.locations_dtype, 2 * point + 1, placed.y(k));
          store_as(to.weights, a.weights_dtype, point, by_weight);
        }
      }
    }
  }
}

}  // namespace deform::kernels::cuda
