// Points of deformable convolution on the device, for the kernels of both directions.
#pragma once

#include "common/bilinear_cuda.cuh"
#include "common/elements_cuda.cuh"
#include "conv/conv_cuda.h"

namespace deform::kernels::cuda {

// Where an output lies: what its points have in common.
struct ConvOutput {
  bool exists;
  int64_t index;    // over the batch
  int64_t picture;  // of the batch
  int64_t y, x;     // of the kernel's first point without its offset, in the value's pixels
};

// A point's place in its picture: the pixels around it and their shares, times mask. One that
// doesn't count has shares of 0 and pixels 0.
template <class R>
struct alignas(16) ConvPoint {
  R share[4];  // top left, top right, bottom left, bottom right
  int pixel[4];
};

// What backward needs beside: the shares without mask, by their parts.
template <class R>
struct ConvPlace {
  bool counts;
  R y, x, mask;
};

__device__ inline ConvOutput conv_output(const ConvCudaArguments& a, int64_t index) {
  if (index >= a.batch * a.out_height * a.out_width) return {false, 0, 0, 0, 0};
  const int64_t row = index / a.out_width, picture = row / a.out_height;
  const int64_t x = index - row * a.out_width, y = row - picture * a.out_height;
  return {true, index, picture, y * a.stride_h - a.pad_h, x * a.stride_w - a.pad_w};
}

// Point k of offset group og of an output.
template <class R>
__device__ inline ConvPlace<R> conv_place(const ConvCudaArguments& a, const ConvOutput& output,
                                          int64_t og, int k) {
  if (!output.exists) return {false, R(0), R(0), R(0)};
  const int kernel_w = static_cast<int>(a.kernel_w);
  const int i = k / kernel_w, j = k - i * kernel_w;
  const int64_t number = (output.index * a.offset_groups + og) * a.kernel_h * a.kernel_w + k;
  ConvPlace<R> place;
  place.y = static_cast<R>(output.y + i * a.dilation_h) +
            load_as<R>(a.offset, a.offset_dtype, 2 * number);
  place.x = static_cast<R>(output.x + j * a.dilation_w) +
            load_as<R>(a.offset, a.offset_dtype, 2 * number + 1);
  place.counts = place.x > R(-1) && place.x < static_cast<R>(a.width) && place.y > R(-1) &&
                 place.y < static_cast<R>(a.height);
  place.mask = a.mask == nullptr ? R(1) : load_as<R>(a.mask, a.mask_dtype, number);
  if (!place.counts) place.mask = R(0);
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

// A run of channels of one point that share their group and their offset group, at most
// kChannels of them; runs follow each other point by point, within a group.
template <int kChannels>
struct ConvSlice {
  int k;        // the point
  int channel;  // the first, within the group
  int count;    // of channels; 0 past the last point
  int og;       // the offset group
  int place;    // counts the pairs of point and offset group

  __device__ void begin(const ConvCudaArguments& a, int64_t group) {
    k = channel = place = 0;
    measure(a, group);
  }

  __device__ void advance(const ConvCudaArguments& a, int64_t group) {
    if (count == 0) return;
    const int before_k = k, before_og = og;
    channel += count;
    if (channel == static_cast<int>(a.channels / a.groups)) {
      channel = 0;
      ++k;
    }
    measure(a, group);
    if (k != before_k || og != before_og) ++place;
  }

 private:
  __device__ void measure(const ConvCudaArguments& a, int64_t group) {
    const int of_group = static_cast<int>(a.channels / a.groups);
    const int of_offsets = static_cast<int>(a.channels / a.offset_groups);
    const int absolute = static_cast<int>(group) * of_group + channel;
    og = absolute / of_offsets;
    // The offset group's end, as a difference: it may be 2^31.
    const int left = of_offsets - (absolute - og * of_offsets);
    count = min(min(kChannels, of_group - channel), left);
    if (k == static_cast<int>(a.kernel_h * a.kernel_w)) count = 0;
  }
};

}  // namespace deform::kernels::cuda
