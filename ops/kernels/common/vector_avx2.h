// Vectors for AVX2 with FMA and F16C. See vector_plain.h for what a Vector is and for the linkage.
#pragma once

#include <immintrin.h>

#include "common/vector_plain.h"

namespace deform::kernels {
namespace {
namespace avx2 {

inline __m256i first_lanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

struct FloatArithmetic {
  static constexpr int kWidth = 8;
  using Register = __m256;
  static Register zero() { return _mm256_setzero_ps(); }
  static Register fill(float x) { return _mm256_set1_ps(x); }
  static Register add(Register a, Register b) { return _mm256_add_ps(a, b); }
  static Register multiply_add(Register a, Register b, Register c) {
    return _mm256_fmadd_ps(a, b, c);
  }
};

template <class T>
struct Vector;

template <>
struct Vector<float> : FloatArithmetic {
  static Register load(const float* from) { return _mm256_loadu_ps(from); }
  static Register load_some(const float* from, int64_t count) {
    return _mm256_maskload_ps(from, first_lanes(count));
  }
  static void store(float* to, Register r) { _mm256_storeu_ps(to, r); }
  static void store_some(float* to, Register r, int64_t count) {
    _mm256_maskstore_ps(to, first_lanes(count), r);
  }
};

// AVX2 has no masked access to 16-bit elements: parts of a vector go through a buffer.
template <class T, class Conversion>
struct SixteenBit : FloatArithmetic {
  static Register load(const T* from) {
    return Conversion::widen8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static Register load_some(const T* from, int64_t count) {
    T buffer[kWidth] = {};
    memcpy(buffer, from, static_cast<size_t>(count) * sizeof(T));
    return load(buffer);
  }
  static void store(T* to, Register r) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), Conversion::narrow8(r));
  }
  static void store_some(T* to, Register r, int64_t count) {
    T buffer[kWidth];
    store(buffer, r);
    memcpy(to, buffer, static_cast<size_t>(count) * sizeof(T));
  }
};

struct HalfConversion {
  static __m256 widen8(__m128i x) { return _mm256_cvtph_ps(x); }
  static __m128i narrow8(__m256 x) { return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT); }
};
struct BFloat16Conversion {
  static __m256 widen8(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  static __m128i narrow8(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i high =
        _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), _mm256_set1_epi32(0x7fc0), is_nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  }
};
template <>
struct Vector<Half> : SixteenBit<Half, HalfConversion> {};
template <>
struct Vector<BFloat16> : SixteenBit<BFloat16, BFloat16Conversion> {};

template <>
struct Vector<double> {
  static constexpr int kWidth = 4;
  using Register = __m256d;
  static __m256i lanes(int64_t count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static Register zero() { return _mm256_setzero_pd(); }
  static Register fill(double x) { return _mm256_set1_pd(x); }
  static Register load(const double* from) { return _mm256_loadu_pd(from); }
  static Register load_some(const double* from, int64_t count) {
    return _mm256_maskload_pd(from, lanes(count));
  }
  static void store(double* to, Register r) { _mm256_storeu_pd(to, r); }
  static void store_some(double* to, Register r, int64_t count) {
    _mm256_maskstore_pd(to, lanes(count), r);
  }
  static Register add(Register a, Register b) { return _mm256_add_pd(a, b); }
  static Register multiply_add(Register a, Register b, Register c) {
    return _mm256_fmadd_pd(a, b, c);
  }
};

}  // namespace avx2
}  // namespace
}  // namespace deform::kernels
