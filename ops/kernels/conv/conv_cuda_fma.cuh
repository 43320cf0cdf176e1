// The forward kernel without tensor cores, for doubles and for GPUs before SM 8.0: a block has 64
// outputs by 64 output channels of one group, each thread 4 x 4 of them, and takes channels of one
// point at a time.
#pragma once

#include "conv/conv_cuda_points.cuh"

namespace deform::kernels::cuda {

constexpr int kFmaThreads = 256, kFmaTile = 64;
constexpr int kFmaSlice = 16;  // numbers of the sum at once

// A slice of both matrices. Rows are padded, so that neighbouring ones start on other banks.
template <class R>
struct FmaSlices {
  R a[kFmaSlice][kFmaTile + 4], b[kFmaSlice][kFmaTile + 4];
};

// A thread's part of the product of a's transpose and b.
template <class R>
struct FmaProduct {
  static constexpr int kSide = 4;
  static_assert(kFmaTile * kFmaTile == kFmaThreads * kSide * kSide);

  R sum[kSide][kSide] = {};

  __device__ static int row() { return static_cast<int>(threadIdx.x) / 16 * kSide; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % 16 * kSide; }

  __device__ void add(const FmaSlices<R>& slices) {
#pragma unroll
    for (int i = 0; i < kFmaSlice; ++i) {
      R a[kSide], b[kSide];
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        a[j] = slices.a[i][row() + j];
        b[j] = slices.b[i][column() + j];
      }
#pragma unroll
      for (int y = 0; y < kSide; ++y) {
#pragma unroll
        for (int x = 0; x < kSide; ++x) sum[y][x] += a[y] * b[x];
      }
    }
  }
};

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

// Grid: tiles of outputs, tiles of a group's output channels, groups.
template <class T>
__device__ __forceinline__ void conv_fma_block(const ConvCudaArguments& a, const T* bias,
                                               T* result) {
  using R = Real<T>;
  __shared__ FmaSlices<R> slices;
  __shared__ ConvPoint<R> points[kFmaTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t outputs = a.batch * a.out_height * a.out_width;
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * kFmaTile;
  const int64_t group = blockIdx.z;
  const int of_group = static_cast<int>(a.channels / a.groups);
  const int64_t outs = a.out_channels / a.groups;
  const int64_t first_out = static_cast<int64_t>(blockIdx.y) * kFmaTile;
  const T* weight =
      static_cast<const T*>(a.weight) + group * a.kernel_h * a.kernel_w * of_group * outs;
  const ConvOutput output =
      thread < kFmaTile ? conv_output(a, first_output + thread) : ConvOutput{};
  const int64_t picture_size = a.height * a.width * a.channels;
  const int64_t outputs_of_picture = a.out_height * a.out_width;
  FmaProduct<R> product;
  int placed = -1;
  ConvSlice<kFmaSlice> slice;
  for (slice.begin(a, group); slice.count > 0; slice.advance(a, group)) {
    __syncthreads();  // until the slices before have been read
    if (slice.place != placed) {
      if (thread < kFmaTile) {
        points[thread] = conv_point(a, conv_place<R>(a, output, slice.og, slice.k));
      }
      placed = slice.place;
      __syncthreads();
    }
    // Neighbouring threads read neighbouring channels.
    for (int i = thread; i < kFmaTile * kFmaSlice; i += kFmaThreads) {
      const int c = i % kFmaSlice, row = i / kFmaSlice;
      R sample = 0;
      if (c < slice.count && first_output + row < outputs) {
        const int64_t picture = (first_output + row) / outputs_of_picture;
        sample = conv_sample(static_cast<const T*>(a.value) + picture * picture_size +
                                 group * of_group + slice.channel + c,
                             a.channels, points[row]);
      }
      slices.a[c][row] = sample;
    }
    for (int i = thread; i < kFmaTile * kFmaSlice; i += kFmaThreads) {
      const int out = i % kFmaTile, c = i / kFmaTile;
      const int64_t row = static_cast<int64_t>(slice.k) * of_group + slice.channel + c;
      slices.b[c][out] = c < slice.count && first_out + out < outs
                             ? widen(weight[row * outs + first_out + out])
                             : R(0);
    }
    __syncthreads();
    product.add(slices);
  }
#pragma unroll
  for (int y = 0; y < FmaProduct<R>::kSide; ++y) {
    const int64_t index = first_output + product.row() + y;
    if (index >= outputs) continue;
#pragma unroll
    for (int x = 0; x < FmaProduct<R>::kSide; ++x) {
      const int64_t out = first_out + product.column() + x;
      if (out >= outs) continue;
      const int64_t channel = group * outs + out;
      const R shift = bias == nullptr ? R(0) : widen(bias[channel]);
      result[index * a.out_channels + channel] = narrow<T>(product.sum[y][x] + shift);
    }
  }
}

}  // namespace deform::kernels::cuda
