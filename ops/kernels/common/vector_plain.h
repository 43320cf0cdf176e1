// Vectors in portable C++, and the scalar conversions that every instruction set shares.
//
// Everything in this header and in its vector_avx*.h siblings has internal linkage on purpose. They
// are compiled several times with different instruction sets, and a function with external linkage
// would be merged by the linker: a machine without AVX-512 could then run the AVX-512 copy. For the
// same reason these headers call no inline function of the standard library.
//
// A `Vector<T>` holds kWidth elements of storage type T, widened to its Real (float, or double for
// double). `load_some`/`store_some` touch the first `count` elements only, 0 < count < kWidth.
#pragma once

#include <stdint.h>
#include <string.h>

namespace deform::kernels {
namespace {

struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

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

template <class To, class From>
inline To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(BFloat16 x) { return bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
inline float widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity or NaN: the exponent becomes all ones
    return bit_cast<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  }
  if (magnitude < 0x0400u) {  // subnormal: a multiple of 2^-24, exact in float
    return bit_cast<float>(sign | bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
  }
  return bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

template <class T>
inline T narrow(Real<T> x);
template <>
inline float narrow<float>(float x) {
  return x;
}
template <>
inline double narrow<double>(double x) {
  return x;
}
template <>
inline BFloat16 narrow<BFloat16>(float x) {
  if (x != x) return {0x7fc0};
  const uint32_t bits = bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
template <>
inline Half narrow<Half>(float x) {
  const uint32_t bits = bit_cast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    // Below the smallest normal half: adding 0.5 lets the float adder round at bit 2^-24.
    const float rounded = bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (bit_cast<uint32_t>(rounded) - 0x3f000000u))};
  }
  const uint32_t rebiased = magnitude - 0x38000000u;
  return {static_cast<uint16_t>(sign | ((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13))};
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

namespace plain {

// Eight elements in an array: compilers turn these loops into whatever vectors the baseline has.
template <class T>
struct Vector {
  static constexpr int kWidth = 8;
  struct Register {
    Real<T> lane[kWidth];
  };
  static Register zero() { return {}; }
  static Register fill(Real<T> x) {
    Register r;
    for (int i = 0; i < kWidth; ++i) r.lane[i] = x;
    return r;
  }
  static Register load(const T* from) { return load_some(from, kWidth); }
  static Register load_some(const T* from, int64_t count) {
    Register r = {};
    for (int64_t i = 0; i < count; ++i) r.lane[i] = widen(from[i]);
    return r;
  }
  static void store(T* to, Register r) { store_some(to, r, kWidth); }
  static void store_some(T* to, Register r, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = narrow<T>(r.lane[i]);
  }
  static Register add(Register a, Register b) {
    for (int i = 0; i < kWidth; ++i) a.lane[i] += b.lane[i];
    return a;
  }
  static Register multiply_add(Register a, Register b, Register c) {
    for (int i = 0; i < kWidth; ++i) c.lane[i] += a.lane[i] * b.lane[i];
    return c;
  }
};

}  // namespace plain
}  // namespace
}  // namespace deform::kernels
