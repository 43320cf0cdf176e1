// Levels and points of multi-scale deformable attention on the device, for the kernels of both
// directions.
#pragma once

#include "common/bilinear_cuda.cuh"
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

template <class T, int kWidth>
__device__ inline void add_pixel(const T* pixel, Real<T> weight, Real<T> (&sum)[kWidth]) {
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(pixel);
#pragma unroll
  for (int c = 0; c < kWidth; ++c) sum[c] += weight * widen(pack.element[c]);
}

// Adds kWidth channels of a point; `image` is the first pixel of their head and channels. Reads
// only pixels of the point's cell: what others hold may be infinite.
template <class T, int kWidth>
__device__ inline void add_point(const T* image, int64_t row_stride, const Level<Real<T>>& level,
                                 Real<T> x, Real<T> y, Real<T> share, Real<T> (&sum)[kWidth]) {
  using R = Real<T>;
  if (!counts(level, x, y)) return;
  const Corners<R> c(x, y, level.int_width, level.int_height);
  const R top = share * (R(1) - c.to_bottom), bottom = share * c.to_bottom;
  const R left = R(1) - c.to_right, right = c.to_right;
  const auto pixel = [&](int line, int column) {
    return image + (level.first_row + line + column) * row_stride;
  };
  if (c.has_top && c.has_left) add_pixel(pixel(c.top, c.left), top * left, sum);
  if (c.has_top && c.has_right) add_pixel(pixel(c.top, c.right), top * right, sum);
  if (c.has_bottom && c.has_left) add_pixel(pixel(c.bottom, c.left), bottom * left, sum);
  if (c.has_bottom && c.has_right) add_pixel(pixel(c.bottom, c.right), bottom * right, sum);
}

}  // namespace deform::kernels::cuda
