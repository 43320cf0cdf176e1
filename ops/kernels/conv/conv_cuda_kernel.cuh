// The forward kernel: a tile of outputs by output channels of one group. Samples exist in shared
// memory only, a slice of channels of one point at a time.
#pragma once

#include "conv/conv_cuda_points.cuh"
#include "conv/conv_cuda_product.cuh"

namespace deform::kernels::cuda {

// Grid: tiles of outputs, tiles of a group's output channels, groups.
template <class T>
__global__ void __launch_bounds__(kConvThreads)
    conv_kernel(const ConvCudaArguments a, const T* bias, T* result) {
  using R = Real<T>;
  __shared__ union {
    Slices<T> slices;
    ProductTile<R> tile;
  } shared;
  __shared__ ConvPoint<R> points[kTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t outputs = a.batch * a.out_height * a.out_width;
  const int64_t first_output = int64_t{blockIdx.x} * kTile;
  const int64_t group = blockIdx.z;
  const int64_t of_group = a.channels / a.groups, outs = a.out_channels / a.groups;
  const int64_t of_offsets = a.channels / a.offset_groups;
  const int64_t first_out = int64_t{blockIdx.y} * kTile;
  const int64_t kernel_points = a.kernel_h * a.kernel_w;
  const T* value = static_cast<const T*>(a.value);
  const T* weight = static_cast<const T*>(a.weight) + group * kernel_points * of_group * outs;
  Product<T> product;
  product.clear();
  for (int64_t k = 0; k < kernel_points; ++k) {
    int64_t placed = -1;  // the offset group whose points are in shared memory
    for (int64_t channel = 0; channel < of_group;) {
      const int64_t absolute = group * of_group + channel;
      const int64_t og = absolute / of_offsets;
      // A slice ends where the offset group does.
      const int count = static_cast<int>(
          min(min(int64_t{kSlice<T>}, of_group - channel), (og + 1) * of_offsets - absolute));
      __syncthreads();  // until the slices before have been read
      if (og != placed) {
        if (thread < kTile) {
          const int64_t output = first_output + thread;
          points[thread] = conv_point(
              a, output < outputs ? conv_place<R>(a, output, og, k) : ConvPlace<R>{false});
        }
        placed = og;
        __syncthreads();
      }
      // Neighbouring threads read neighbouring channels.
      for (int i = thread; i < kTile * kSlice<T>; i += kConvThreads) {
        const int c = i % kSlice<T>, row = i / kSlice<T>;
        R sample = 0;
        if (c < count && first_output + row < outputs) {
          const int64_t picture = (first_output + row) / (a.out_height * a.out_width);
          sample = conv_sample(value + picture * a.height * a.width * a.channels + absolute + c,
                               a.channels, points[row]);
        }
        shared.slices.set_sample(c, row, sample);
      }
      for (int i = thread; i < kTile * kSlice<T>; i += kConvThreads) {
        const int out = i % kTile, c = i / kTile;
        const bool exists = c < count && first_out + out < outs;
        shared.slices.b[c][out] =
            exists ? weight[(k * of_group + channel + c) * outs + first_out + out] : T(0.f);
      }
      __syncthreads();
      product.template add<true>(shared.slices);
      channel += count;
    }
  }
  __syncthreads();  // until the last slices have been read
  product.store(shared.tile);
  __syncthreads();
  for (int i = thread; i < kTile * kTile; i += kConvThreads) {
    const int row = i / kTile, column = i % kTile;
    const int64_t output = first_output + row, out = first_out + column;
    if (output >= outputs || out >= outs) continue;
    const int64_t channel = group * outs + out;
    const R shift = bias == nullptr ? R(0) : widen(bias[channel]);
    result[output * a.out_channels + channel] = narrow<T>(shared.tile.at[row][column] + shift);
  }
}

}  // namespace deform::kernels::cuda
