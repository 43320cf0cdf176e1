// Elements on the device: widening, narrowing and loads of several at once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/dtype.h"

namespace deform::kernels::cuda {

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

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }

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
