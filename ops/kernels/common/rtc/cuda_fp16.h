// What kernels use of cuda_fp16.h, for the run-time compiler: it has no toolkit's headers to hand.
#pragma once

struct alignas(2) __half {
  unsigned short bits;
};
struct alignas(4) __half2 {
  unsigned bits;
};

__device__ inline float __half2float(__half x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ inline __half __float2half_rn(float x) {
  __half y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
__device__ inline __half2 __floats2half2_rn(float low, float high) {
  return {static_cast<unsigned>(__float2half_rn(high).bits) << 16 | __float2half_rn(low).bits};
}
__device__ inline void atomicAdd(__half* to, __half x) {
  asm volatile("red.global.add.noftz.f16 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "h"(x.bits)
               : "memory");
}
__device__ inline void atomicAdd(__half2* to, __half2 x) {
  asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(__cvta_generic_to_global(to)),
               "r"(x.bits)
               : "memory");
}
