// Vectors for AVX-512 (F, BW, VL, DQ). See vector_plain.h for what a Vector is and for the linkage.
#pragma once

#include <immintrin.h>

#include "common/vector_plain.h"

namespace deform::kernels {
namespace {
namespace avx512 {

inline __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }

struct FloatArithmetic {
  static constexpr int kWidth = 16;
  using Register = __m512;
  static Register zero() { return _mm512_setzero_ps(); }
  static Register fill(float x) { return _mm512_set1_ps(x); }
  static Register add(Register a, Register b) { return _mm512_add_ps(a, b); }
  static Register multiply_add(Register a, Register b, Register c) {
    return _mm512_fmadd_ps(a, b, c);
  }
};

template <class T>
struct Vector;

template <>
struct Vector<float> : FloatArithmetic {
  static Register load(const float* from) { return _mm512_loadu_ps(from); }
  static Register load_some(const float* from, int64_t count) {
    return _mm512_maskz_loadu_ps(first_lanes(count), from);
  }
  static void store(float* to, Register r) { _mm512_storeu_ps(to, r); }
  static void store_some(float* to, Register r, int64_t count) {
    _mm512_mask_storeu_ps(to, first_lanes(count), r);
  }
};

template <class T, class Conversion>
struct SixteenBit : FloatArithmetic {
  static Register load(const T* from) {
    return Conversion::widen16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static Register load_some(const T* from, int64_t count) {
    return Conversion::widen16(_mm256_maskz_loadu_epi16(first_lanes(count), from));
  }
  static void store(T* to, Register r) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), Conversion::narrow16(r));
  }
  static void store_some(T* to, Register r, int64_t count) {
    _mm256_mask_storeu_epi16(to, first_lanes(count), Conversion::narrow16(r));
  }
};

struct HalfConversion {
  static __m512 widen16(__m256i x) { return _mm512_cvtph_ps(x); }
  static __m256i narrow16(__m512 x) { return _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
};
struct BFloat16Conversion {
  static __m512 widen16(__m256i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
  static __m256i narrow16(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_mov_epi32(_mm512_srli_epi32(rounded, 16), is_nan, _mm512_set1_epi32(0x7fc0)));
  }
};
template <>
struct Vector<Half> : SixteenBit<Half, HalfConversion> {};
template <>
struct Vector<BFloat16> : SixteenBit<BFloat16, BFloat16Conversion> {};

template <>
struct Vector<double> {
  static constexpr int kWidth = 8;
  using Register = __m512d;
  static __mmask8 lanes(int64_t count) { return static_cast<__mmask8>((1u << count) - 1u); }
  static Register zero() { return _mm512_setzero_pd(); }
  static Register fill(double x) { return _mm512_set1_pd(x); }
  static Register load(const double* from) { return _mm512_loadu_pd(from); }
  static Register load_some(const double* from, int64_t count) {
    return _mm512_maskz_loadu_pd(lanes(count), from);
  }
  static void store(double* to, Register r) { _mm512_storeu_pd(to, r); }
  static void store_some(double* to, Register r, int64_t count) {
    _mm512_mask_storeu_pd(to, lanes(count), r);
  }
  static Register add(Register a, Register b) { return _mm512_add_pd(a, b); }
  static Register multiply_add(Register a, Register b, Register c) {
    return _mm512_fmadd_pd(a, b, c);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace deform::kernels
