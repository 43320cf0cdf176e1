// Atomic additions of neighbouring elements to global memory, in as few instructions as the GPU has
// for them. Nobody waits for the sums.
#pragma once

#include "common/elements_cuda.cuh"

namespace deform::kernels::cuda {

// to[i] += part[i]. REQUIRES: `to` is aligned to kWidth elements, or to 16 bytes where those are
// more.
template <int kWidth>
__device__ inline void scatter_add(double* to, const double (&part)[kWidth]) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) atomicAdd(to + i, part[i]);
}

template <int kWidth>
__device__ inline void scatter_add(float* to, const float (&part)[kWidth]) {
#if __CUDA_ARCH__ >= 900
  constexpr int kAtOnce = kWidth % 4 == 0 ? 4 : kWidth % 2 == 0 ? 2 : 1;
#else
  constexpr int kAtOnce = 1;
#endif
#pragma unroll
  for (int i = 0; i < kWidth; i += kAtOnce) {
    if constexpr (kAtOnce == 4) {
      asm volatile(
          "red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to + i)),
          "f"(part[i]), "f"(part[i + 1]), "f"(part[i + 2]), "f"(part[i + 3])
          : "memory");
    } else if constexpr (kAtOnce == 2) {
      asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to + i)),
                   "f"(part[i]), "f"(part[i + 1])
                   : "memory");
    } else {
      atomicAdd(to + i, part[i]);
    }
  }
}

__device__ inline __half2 narrow_pair(float a, float b, const __half*) {
  return __floats2half2_rn(a, b);
}
__device__ inline __nv_bfloat162 narrow_pair(float a, float b, const __nv_bfloat16*) {
  return __floats2bfloat162_rn(a, b);
}

// Half-precision sums, each rounded: for GPUs from SM 9.0 on, where the hardware adds both types.
template <class T, int kWidth>
__device__ inline void scatter_add_halves(T* to, const float (&part)[kWidth]) {
  if constexpr (kWidth == 1) {
    atomicAdd(to, narrow<T>(part[0]));
  } else {
    using Pair = decltype(narrow_pair(0.f, 0.f, to));
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {
      atomicAdd(reinterpret_cast<Pair*>(to + i), narrow_pair(part[i], part[i + 1], to));
    }
  }
}
template <int kWidth>
__device__ inline void scatter_add(__half* to, const float (&part)[kWidth]) {
  scatter_add_halves(to, part);
}
template <int kWidth>
__device__ inline void scatter_add(__nv_bfloat16* to, const float (&part)[kWidth]) {
  scatter_add_halves(to, part);
}

}  // namespace deform::kernels::cuda
