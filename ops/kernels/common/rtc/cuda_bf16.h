// What kernels use of cuda_bf16.h, for the run-time compiler: it has no toolkit's headers to hand.
#pragma once

struct alignas(2) __nv_bfloat16 {
  unsigned short bits;
};
struct alignas(4) __nv_bfloat162 {
  unsigned bits;
};

__device__ inline float __bfloat162float(__nv_bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
__device__ inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  if (x != x) return {0x7fff};
  const unsigned bits = __float_as_uint(x);
  return {static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
__device__ inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
  return {static_cast<unsigned>(__float2bfloat16_rn(high).bits) << 16 |
          __float2bfloat16_rn(low).bits};
}
#if __CUDA_ARCH__ >= 900
__device__ inline void atomicAdd(__nv_bfloat16* to, __nv_bfloat16 x) {
  asm volatile("red.global.add.noftz.bf16 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
               "h"(x.bits)
               : "memory");
}
__device__ inline void atomicAdd(__nv_bfloat162* to, __nv_bfloat162 x) {
  asm volatile("red.global.add.noftz.bf16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
               "r"(x.bits)
               : "memory");
}
#else
// Never called: below SM 9.0 value gradients accumulate in float32 (csrc/select/policy.h).
__device__ inline void atomicAdd(__nv_bfloat16*, __nv_bfloat16) { __trap(); }
__device__ inline void atomicAdd(__nv_bfloat162*, __nv_bfloat162) { __trap(); }
#endif
