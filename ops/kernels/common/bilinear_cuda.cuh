// The four pixels around a sampling point, and what its gradient does to them.
#pragma once

#include "common/elements_cuda.cuh"
#include "common/scatter_cuda.cuh"

namespace deform::kernels::cuda {

// The pixels around a point that counts, numbered within their map.
template <class R>
struct Corners {
  R to_right, to_bottom;  // of the cell, 0 to 1
  int left, right, top, bottom;
  bool has_left, has_right, has_top, has_bottom;  // inside the map; else the neighbour within

  __device__ Corners(R x, R y, int width, int height) {
    const R floor_x = floor(x), floor_y = floor(y);
    const int x0 = static_cast<int>(floor_x), y0 = static_cast<int>(floor_y);
    to_right = x - floor_x;
    to_bottom = y - floor_y;
    has_left = x0 >= 0;
    has_right = x0 + 1 < width;
    has_top = y0 >= 0;
    has_bottom = y0 + 1 < height;
    left = max(x0, 0);
    right = min(x0 + 1, width - 1);
    top = max(y0, 0) * width;
    bottom = min(y0 + 1, height - 1) * width;
  }
};

// kWidth channels of one corner: adds `weight` times the result's gradient to the corner's, where
// `scatter` says so, and returns the product of that gradient and the corner's pixel.
template <class T, class A, int kWidth>
__device__ inline Real<T> visit_corner(const T* pixel, A* sum, Real<T> weight,
                                       const Real<T> (&gradient)[kWidth], bool scatter) {
  using R = Real<T>;
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(pixel);
  R product = 0;
#pragma unroll
  for (int c = 0; c < kWidth; ++c) product += gradient[c] * widen(pack.element[c]);
  if (scatter) {
    R part[kWidth];
#pragma unroll
    for (int c = 0; c < kWidth; ++c) part[c] = weight * gradient[c];
    scatter_add(sum, part);
  }
  return product;
}

// A point's derivatives by its weight and by its place, of one thread's channels or of all.
template <class R>
struct PointGradient {
  R by_weight, by_x, by_y;
};

}  // namespace deform::kernels::cuda
