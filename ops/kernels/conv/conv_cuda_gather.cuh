// Samples for tensor cores: 16 bytes of channels of the four pixels around a point.
#pragma once

#include "conv/conv_cuda_points.cuh"
#include "conv/conv_cuda_product.cuh"

namespace deform::kernels::cuda {

// A pack's channels in the four corners.
struct CornerPacks {
  uint4 corner[4];
};

// kVector: `count` is all of a pack or none, and packs are aligned; else the first `count` elements
// are there. `first` is the pack's place in its picture's first pixel. Corners without a share
// aren't read: what they hold may be infinite.
template <class T, bool kVector>
__device__ __forceinline__ CornerPacks load_corners(const T* first, int channels,
                                                    const ConvPoint<float>& point, int count) {
  CornerPacks packs;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const bool wanted = point.share[c] != 0.f && count > 0;
    const T* from = first + static_cast<int64_t>(point.pixel[c]) * channels;
    if constexpr (kVector) {
      packs.corner[c] = {0, 0, 0, 0};
      if (wanted) packs.corner[c] = __ldg(reinterpret_cast<const uint4*>(from));
    } else {
      float x[kPack<T>];
#pragma unroll
      for (int i = 0; i < kPack<T>; ++i) x[i] = wanted && i < count ? widen(from[i]) : 0.f;
      packs.corner[c] = pack(x, T());
    }
  }
  return packs;
}

template <class T>
__device__ __forceinline__ void interpolate(float (&sample)[kPack<T>], const CornerPacks& packs,
                                            const ConvPoint<float>& point) {
#pragma unroll
  for (int i = 0; i < kPack<T>; ++i) sample[i] = 0.f;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    float x[kPack<T>];
    unpack(packs.corner[c], x, T());
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) sample[i] += point.share[c] * x[i];
  }
}

// Stores samples at `to`; with kSplit what they lose by that at `rest`, so that the two together
// have twice the digits of a half.
template <class T, bool kSplit>
__device__ __forceinline__ void store_samples(uint4* to, uint4* rest,
                                              const float (&sample)[kPack<T>]) {
  const uint4 words = pack(sample, T());
  *to = words;
  if constexpr (kSplit) {
    float kept[kPack<T>], lost[kPack<T>];
    unpack(words, kept, T());
#pragma unroll
    for (int i = 0; i < kPack<T>; ++i) {
      const float difference = sample[i] - kept[i];
      lost[i] = isfinite(difference) ? difference : 0.f;
    }
    *rest = pack(lost, T());
  }
}

}  // namespace deform::kernels::cuda
