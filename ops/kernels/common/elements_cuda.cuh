// Elements on the device: widening, narrowing and loads of several at once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdint.h>

#include "common/dtype.h"

namespace deform::kernels::cuda {

// A value's element type.
template <Dtype>
struct ElementOf {
  using type = float;
};
template <>
struct ElementOf<Dtype::kFloat16> {
  using type = __half;
};
template <>
struct ElementOf<Dtype::kBFloat16> {
  using type = __nv_bfloat16;
};
template <>
struct ElementOf<Dtype::kFloat64> {
  using type = double;
};
template <Dtype dtype>
using Element = typename ElementOf<dtype>::type;

// What an element is computed in.
template <class T>
struct RealOf {
  using type = float;
};
template <>
struct RealOf<double> {
  using type = double;
};
template <class T>
using Real = typename RealOf<T>::type;

// What gradients of many points are added up in: `native`, in the element's own type.
template <class T, bool native>
struct SumOfElements {
  using type = T;
};
template <class T>
struct SumOfElements<T, false> {
  using type = Real<T>;
};
template <class T, bool native>
using SumOf = typename SumOfElements<T, native>::type;

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

// A number from its bits, low ones where it has fewer.
__device__ inline float float_of(uint32_t bits, Dtype dtype) {
  if (dtype == Dtype::kFloat32) return __uint_as_float(bits);
  if (dtype == Dtype::kBFloat16) return __uint_as_float(bits << 16);
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(bits)));
  return x;
}

// Two neighbours in memory.
template <class T>
__device__ inline float2 pair_of(uint32_t bits);
template <>
__device__ inline float2 pair_of<__nv_bfloat16>(uint32_t bits) {
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}
template <>
__device__ inline float2 pair_of<__half>(uint32_t bits) {
  return make_float2(float_of(bits & 0xffffu, Dtype::kFloat16),
                     float_of(bits >> 16, Dtype::kFloat16));
}

template <class T>
__device__ T narrow(Real<T> x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline double narrow<double>(double x) {
  return x;
}
template <>
__device__ inline __half narrow<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// kWidth neighbouring elements, moved by one instruction.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T element[kWidth];
};

// Element `index` of an array whose type is known at run time only; the same for a whole grid, so
// that no warp diverges.
template <class R>
__device__ inline R load_as(const void* array, Dtype dtype, int64_t index) {
  switch (dtype) {
    case Dtype::kFloat16:
      return static_cast<R>(widen(static_cast<const __half*>(array)[index]));
    case Dtype::kBFloat16:
      return static_cast<R>(widen(static_cast<const __nv_bfloat16*>(array)[index]));
    case Dtype::kFloat64:
      return static_cast<R>(static_cast<const double*>(array)[index]);
    default:
      return static_cast<R>(static_cast<const float*>(array)[index]);
  }
}

// The other way round.
template <class R>
__device__ inline void store_as(void* array, Dtype dtype, int64_t index, R x) {
  switch (dtype) {
    case Dtype::kFloat16:
      static_cast<__half*>(array)[index] = narrow<__half>(static_cast<float>(x));
      break;
    case Dtype::kBFloat16:
      static_cast<__nv_bfloat16*>(array)[index] = narrow<__nv_bfloat16>(static_cast<float>(x));
      break;
    case Dtype::kFloat64:
      static_cast<double*>(array)[index] = static_cast<double>(x);
      break;
    default:
      static_cast<float*>(array)[index] = static_cast<float>(x);
  }
}

}  // namespace deform::kernels::cuda
