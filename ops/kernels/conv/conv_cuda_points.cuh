// Points of deformable convolution on the device, for the kernels of both directions.
#pragma once

#include "common/bilinear_cuda.cuh"
#include "common/elements_cuda.cuh"
#include "conv/conv_cuda.h"

namespace deform::kernels::cuda {

// A point's place in its picture: the pixels around it and their shares, times mask. One that
// doesn't count has shares of 0 and pixels 0.
template <class R>
struct ConvPoint {
  R share[4];  // top left, top right, bottom left, bottom right
  int pixel[4];
};

// What backward needs beside: the shares without mask, by their parts.
template <class R>
struct ConvPlace {
  bool counts;
  R y, x, mask;
};

// Point k of offset group og of output `output`, counted over the batch.
template <class R>
__device__ inline ConvPlace<R> conv_place(const ConvCudaArguments& a, int64_t output, int64_t og,
                                          int64_t k) {
  const int64_t row = output / a.out_width;
  const int64_t ox = output - row * a.out_width, oy = row % a.out_height;
  const int64_t i = k / a.kernel_w, j = k - i * a.kernel_w;
  const int64_t number = (output * a.offset_groups + og) * a.kernel_h * a.kernel_w + k;
  ConvPlace<R> place;
  place.y = static_cast<R>(oy * a.stride_h - a.pad_h + i * a.dilation_h) +
            load_as<R>(a.offset, a.offset_dtype, 2 * number);
  place.x = static_cast<R>(ox * a.stride_w - a.pad_w + j * a.dilation_w) +
            load_as<R>(a.offset, a.offset_dtype, 2 * number + 1);
  place.counts = place.x > R(-1) && place.x < static_cast<R>(a.width) && place.y > R(-1) &&
                 place.y < static_cast<R>(a.height);
  place.mask = place.counts && a.mask != nullptr ? load_as<R>(a.mask, a.mask_dtype, number) : R(1);
  return place;
}

template <class R>
__device__ inline ConvPoint<R> conv_point(const ConvCudaArguments& a, const ConvPlace<R>& place) {
  if (!place.counts) return {{R(0), R(0), R(0), R(0)}, {0, 0, 0, 0}};
  const Corners<R> c(place.x, place.y, static_cast<int>(a.width), static_cast<int>(a.height));
  const R left = c.has_left ? R(1) - c.to_right : R(0), right = c.has_right ? c.to_right : R(0);
  const R top = c.has_top ? place.mask * (R(1) - c.to_bottom) : R(0);
  const R bottom = c.has_bottom ? place.mask * c.to_bottom : R(0);
  return {{top * left, top * right, bottom * left, bottom * right},
          {c.top + c.left, c.top + c.right, c.bottom + c.left, c.bottom + c.right}};
}

// The sample of one channel; `channel` is its element in the picture's first pixel. Corners without
// a share aren't read: what they hold may be infinite.
template <class T>
__device__ inline Real<T> conv_sample(const T* channel, int64_t channels,
                                      const ConvPoint<Real<T>>& point) {
  Real<T> sum = 0;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (point.share[c] != Real<T>(0)) {
      sum += point.share[c] * widen(channel[point.pixel[c] * channels]);
    }
  }
  return sum;
}

}  // namespace deform::kernels::cuda
