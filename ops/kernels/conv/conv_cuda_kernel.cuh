// The forward kernel: a tile of outputs by output channels of one group. Samples exist in shared
// memory only, a slice of channels of one point at a time.
#pragma once

#include "conv/conv_cuda_points.cuh"

namespace deform::kernels::cuda {

// Grid: tiles of outputs, tiles of a group's output channels, groups.
template <class T>
__global__ void __launch_bounds__(kConvThreads)
    conv_kernel(const ConvCudaArguments a, const T* bias, T* result) {
  using R = Real<T>;
  __shared__ Slices<R> slices;
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
  R sum[kOfThread][kOfThread] = {};
  for (int64_t k = 0; k < kernel_points; ++k) {
    int64_t placed = -1;  // the offset group whose points are in shared memory
    for (int64_t channel = 0; channel < of_group;) {
      const int64_t absolute = group * of_group + channel;
      const int64_t og = absolute / of_offsets;
      // A slice ends where the offset group does.
      const int count = static_cast<int>(
          min(min(int64_t{kSlice}, of_group - channel), (og + 1) * of_offsets - absolute));
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
      for (int i = thread; i < kTile * kSlice; i += kConvThreads) {
        const int c = i % kSlice, row = i / kSlice;
        R sample = 0;
        if (c < count && first_output + row < outputs) {
          const int64_t picture = (first_output + row) / (a.out_height * a.out_width);
          sample = conv_sample(value + picture * a.height * a.width * a.channels + absolute + c,
                               a.channels, points[row]);
        }
        slices.a[c][row] = sample;
      }
      for (int i = thread; i < kTile * kSlice; i += kConvThreads) {
        const int out = i % kTile, c = i / kTile;
        const bool exists = c < count && first_out + out < outs;
        slices.b[c][out] =
            exists ? widen(weight[(k * of_group + channel + c) * outs + first_out + out]) : R(0);
      }
      __syncthreads();
      multiply_slices(slices, sum);
      channel += count;
    }
  }
  const int row = thread / 16 * kOfThread, column = thread % 16 * kOfThread;
#pragma unroll
  for (int y = 0; y < kOfThread; ++y) {
    const int64_t output = first_output + row + y;
#pragma unroll
    for (int x = 0; x < kOfThread; ++x) {
      const int64_t out = first_out + column + x;
      if (output >= outputs || out >= outs) continue;
      const int64_t channel = group * outs + out;
      const R shift = bias == nullptr ? R(0) : widen(bias[channel]);
      result[output * a.out_channels + channel] = narrow<T>(sum[y][x] + shift);
    }
  }
}

}  // namespace deform::kernels::cuda
