// Levels and points of multi-scale deformable attention on the device, for the kernels of both
// directions.
#pragma once

#include "common/elements_cuda.cuh"
#include "msda/msda_cuda.h"

namespace deform::kernels::cuda {

constexpr int kLevelsAtOnce = 64;  // that shared memory holds

template <class R>
struct Level {
  R width, height;
  int int_width, int_height, first_row;
};

__device__ inline int64_t index_at(const void* table, bool is_int64, int64_t i) {
  return is_int64 ? static_cast<const int64_t*>(table)[i] : static_cast<const int32_t*>(table)[i];
}

template <class R>
__device__ inline Level<R> read_level(const MsdaCudaArguments& a, int64_t level) {
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

template <class R>
__device__ inline bool counts(const Level<R>& level, R x, R y) {
  return x > R(-1) && x < level.width && y > R(-1) && y < level.height;
}

}  // namespace deform::kernels::cuda
