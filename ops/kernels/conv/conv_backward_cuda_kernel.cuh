// The backward kernels. Neither keeps samples or their gradients outside shared memory.
#pragma once

#include "common/teams_cuda.cuh"
#include "conv/conv_backward_cuda_product.cuh"
#include "conv/conv_cuda_points.cuh"

namespace deform::kernels::cuda {

// The gradients of value, offset and mask. A block has a tile of outputs, one point of the kernel
// and one offset group, so that it alone writes that point's offset and mask. It goes over the
// offset group's channels, kTile of one group at a time: their gradients are the product of the
// result's gradient and weight; then each warp takes outputs in turn, a lane for each channel.
//
// Grid: tiles of outputs, points, offset groups.
template <class T, bool kTensorCores>
__device__ __forceinline__ void conv_backward_points_block(const ConvCudaArguments& a,
                                                           const ConvCudaGradients& to) {
  using R = Real<T>;
  using Product = TileProduct<T, kTensorCores>;
  const T* of_result = static_cast<const T*>(to.output);
  R* by_value = static_cast<R*>(to.value);
  constexpr int kWarps = kConvThreads / 32;
  __shared__ union {
    typename Product::Matrices matrices;
    ProductTile<R> by_samples;  // of output, channel
  } shared;
  __shared__ ConvPlace<R> places[kTile];
  __shared__ R sums[kTile][3];  // by y, x and mask
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int64_t outputs = a.batch * a.out_height * a.out_width;
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t k = blockIdx.y, og = blockIdx.z, kernel_points = a.kernel_h * a.kernel_w;
  const int64_t of_group = a.channels / a.groups, outs = a.out_channels / a.groups;
  const int64_t of_offsets = a.channels / a.offset_groups;
  const int64_t last_channel = (og + 1) * of_offsets;
  if (thread < kTile) {
    const int64_t output = first_output + thread;
    places[thread] = conv_place<R>(a, conv_output(a, output), og, static_cast<int>(k));
    for (int i = 0; i < 3; ++i) sums[thread][i] = R(0);
  }
  for (int64_t channel = og * of_offsets; channel < last_channel;) {
    const int64_t group = channel / of_group;
    const int count = static_cast<int>(min(min(static_cast<int64_t>(kTile), last_channel - channel),
                                           (group + 1) * of_group - channel));
    const T* weight = static_cast<const T*>(a.weight) +
                      ((group * kernel_points + k) * of_group + channel - group * of_group) * outs;
    Product product;
    product.clear();
    for (int64_t out = 0; out < outs; out += Product::kRows) {
      __syncthreads();  // until what was in shared memory has been read
      for (int i = thread; i < kTile * Product::kRows; i += kConvThreads) {
        const int o = i % Product::kRows, other = i / Product::kRows;
        const bool has_out = out + o < outs;
        const int64_t output = first_output + other;
        R gradient = 0, factor = 0;
        if (has_out && output < outputs) {
          gradient = widen(of_result[output * a.out_channels + group * outs + out + o]);
        }
        if (has_out && other < count) factor = widen(weight[other * outs + out + o]);
        Product::set_a(shared.matrices, o, other, gradient);
        Product::set_b(shared.matrices, o, other, factor);
      }
      __syncthreads();
      product.add(shared.matrices);
    }
    __syncthreads();  // until the last slices have been read
    product.store(shared.by_samples);
    __syncthreads();
    for (int o = warp; o < kTile; o += kWarps) {
      const ConvPlace<R> place = places[o];
      if (!place.counts) continue;  // the same for the whole warp
      const Corners<R> c(place.x, place.y, static_cast<int>(a.width), static_cast<int>(a.height));
      const R to_left = R(1) - c.to_right, to_top = R(1) - c.to_bottom;
      const int64_t picture = (first_output + o) / (a.out_height * a.out_width);
      const int64_t first_element = picture * a.height * a.width * a.channels + channel;
      const T* image = static_cast<const T*>(a.value) + first_element;
      R* sums_of_value = by_value + first_element;
      R top_left = 0, top_right = 0, bottom_left = 0, bottom_right = 0;
      for (int i = lane; i < count; i += 32) {
        const R by_sample = shared.by_samples.at[o][i];
        const R scaled = by_sample * place.mask;
        const auto visit = [&](int pixel, R share) {
          const int64_t element = pixel * a.channels + i;
          atomicAdd(sums_of_value + element, scaled * share);
          return by_sample * widen(image[element]);
        };
        if (c.has_top && c.has_left) top_left += visit(c.top + c.left, to_top * to_left);
        if (c.has_top && c.has_right) top_right += visit(c.top + c.right, to_top * c.to_right);
        if (c.has_bottom && c.has_left) {
          bottom_left += visit(c.bottom + c.left, c.to_bottom * to_left);
        }
        if (c.has_bottom && c.has_right) {
          bottom_right += visit(c.bottom + c.right, c.to_bottom * c.to_right);
        }
      }
      top_left = team_sum(top_left, 32);
      top_right = team_sum(top_right, 32);
      bottom_left = team_sum(bottom_left, 32);
      bottom_right = team_sum(bottom_right, 32);
      if (lane == 0) {
        const R upper = to_left * top_left + c.to_right * top_right;
        const R lower = to_left * bottom_left + c.to_right * bottom_right;
        sums[o][0] += place.mask * (lower - upper);
        sums[o][1] += place.mask * (to_top * (top_right - top_left) +
                                    c.to_bottom * (bottom_right - bottom_left));
        sums[o][2] += to_top * upper + c.to_bottom * lower;
      }
    }
    channel += count;
  }
  __syncthreads();
  if (thread < kTile && first_output + thread < outputs) {
    const int64_t number = ((first_output + thread) * a.offset_groups + og) * kernel_points + k;
    store_as(to.offset, a.offset_dtype, 2 * number, sums[thread][0]);
    store_as(to.offset, a.offset_dtype, 2 * number + 1, sums[thread][1]);
    if (a.mask != nullptr) store_as(to.mask, a.mask_dtype, number, sums[thread][2]);
  }
}

// The gradient of weight: a tile of one point's channels by output channels of one group, summed
// over a share of the outputs, then added to the others' shares. Grid: tiles of channels times
// points, tiles of output channels times groups, shares.
template <class T, bool kTensorCores>
__device__ __forceinline__ void conv_backward_weight_block(const ConvCudaArguments& a,
                                                           const ConvCudaGradients& to,
                                                           int64_t outputs_of_share) {
  using R = Real<T>;
  using Product = TileProduct<T, kTensorCores>;
  constexpr int kRows = Product::kRows;
  const T* of_result = static_cast<const T*>(to.output);
  R* by_weight = static_cast<R*>(to.weight);
  __shared__ union {
    typename Product::Matrices matrices;
    ProductTile<R> tile;
  } shared;
  __shared__ ConvPoint<R> points[kRows];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t kernel_points = a.kernel_h * a.kernel_w;
  const int64_t of_group = a.channels / a.groups, outs = a.out_channels / a.groups;
  const int64_t of_offsets = a.channels / a.offset_groups;
  const int64_t k = blockIdx.x % kernel_points;
  const int64_t first_channel = blockIdx.x / kernel_points * kTile;
  const int64_t group = blockIdx.y % a.groups, first_out = blockIdx.y / a.groups * kTile;
  const int64_t first_absolute = group * of_group + first_channel;
  const int64_t last_absolute = min(first_absolute + kTile, (group + 1) * of_group) - 1;
  // Channels of one offset group share their points.
  const int64_t og = first_absolute / of_offsets;
  const bool shares_points = og == last_absolute / of_offsets;
  const int64_t outputs_of_picture = a.out_height * a.out_width;
  const int64_t outputs = a.batch * outputs_of_picture;
  const int64_t begin = static_cast<int64_t>(blockIdx.z) * outputs_of_share;
  const int64_t end = min(outputs, begin + outputs_of_share);
  const auto point_of = [&](int64_t output, int64_t offset_group) {
    return conv_point(a,
                      conv_place<R>(a, conv_output(a, output), offset_group, static_cast<int>(k)));
  };
  Product product;
  product.clear();
  for (int64_t first = begin; first < end; first += kRows) {
    __syncthreads();  // until the slices before have been read
    if (shares_points) {
      if (thread < kRows && first + thread < end) points[thread] = point_of(first + thread, og);
      __syncthreads();
    }
    for (int i = thread; i < kTile * kRows; i += kConvThreads) {
      const int c = i % kTile, o = i / kTile;
      const int64_t output = first + o, absolute = first_absolute + c;
      R sample = 0, gradient = 0;
      if (output < end && absolute <= last_absolute) {
        const ConvPoint<R> point =
            shares_points ? points[o] : point_of(output, absolute / of_offsets);
        const int64_t picture = output / outputs_of_picture;
        sample = conv_sample(
            static_cast<const T*>(a.value) + picture * a.height * a.width * a.channels + absolute,
            a.channels, point);
      }
      if (output < end && first_out + c < outs) {
        gradient = widen(of_result[output * a.out_channels + group * outs + first_out + c]);
      }
      Product::set_a(shared.matrices, o, c, sample);
      Product::set_b(shared.matrices, o, c, gradient);
    }
    __syncthreads();
    product.add(shared.matrices);
  }
  __syncthreads();  // until the last slices have been read
  product.store(shared.tile);
  __syncthreads();
  for (int i = thread; i < kTile * kTile; i += kConvThreads) {
    const int c = i / kTile, out = i % kTile;
    if (first_absolute + c > last_absolute || first_out + out >= outs) continue;
    const int64_t row = (group * kernel_points + k) * of_group + first_channel + c;
    atomicAdd(by_weight + row * outs + first_out + out, shared.tile.at[c][out]);
  }
}

}  // namespace deform::kernels::cuda
