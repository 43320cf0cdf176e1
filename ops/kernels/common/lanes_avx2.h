// Eight sampling points at once with AVX2. See lanes_plain.h for what each function does.
#pragma once

#include <immintrin.h>

#include "common/lanes_plain.h"

namespace deform::kernels {
namespace {
namespace avx2 {

template <class T>
struct Lanes : plain::Lanes<T> {};

template <>
struct Lanes<float> {
  static constexpr int kWidth = 8;
  using Real = float;
  using Floats = __m256;
  using Ints = __m256i;
  struct Mask {
    __m256 bits;
  };

  static Floats fill(float x) { return _mm256_set1_ps(x); }
  static Floats load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
  static Ints load_ints(const int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void load_pairs(const float* from, Floats& x, Floats& y) {
    const __m256 a = _mm256_loadu_ps(from);
    const __m256 b = _mm256_loadu_ps(from + 8);
    const __m256 low = _mm256_permute2f128_ps(a, b, 0x20);
    const __m256 high = _mm256_permute2f128_ps(a, b, 0x31);
    x = _mm256_shuffle_ps(low, high, 0x88);
    y = _mm256_shuffle_ps(low, high, 0xdd);
  }
  static void store_pairs(float* to, Floats x, Floats y) {
    const __m256 low = _mm256_unpacklo_ps(x, y);  // x0 y0 x1 y1 x4 y4 x5 y5
    const __m256 high = _mm256_unpackhi_ps(x, y);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }

  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats multiply_subtract(Floats a, Floats b, Floats c) { return _mm256_fmsub_ps(a, b, c); }
  static Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static Floats floor(Floats x) { return _mm256_floor_ps(x); }
  // For x <= 0 or NaN: 2^n times a Taylor polynomial on [-ln2/2, ln2/2], within 2 ulp; results
  // below e^-87 are 0, and never computed: subnormal numbers are slow.
  static Floats exp(Floats x) {
    const __m256 lowest = _mm256_set1_ps(-87.f);
    const __m256 clamped = _mm256_max_ps(lowest, x);
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e400p-1f), clamped);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 p = _mm256_set1_ps(1.f / 5040);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f / 720));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.f));
    const __m256i exponent =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const __m256 scaled = _mm256_mul_ps(p, _mm256_castsi256_ps(exponent));
    const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m256 vanishes = _mm256_cmp_ps(x, lowest, _CMP_LT_OQ);
    return _mm256_blendv_ps(_mm256_andnot_ps(vanishes, scaled), x, is_nan);
  }
  static float sum(Floats x) {
    float lane[kWidth];
    store(lane, x);
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) +
           ((lane[2] + lane[6]) + (lane[3] + lane[7]));
  }
  static float largest(Floats x) {
    float lane[kWidth];
    store(lane, x);
    float most = lane[0];
    for (int i = 1; i < kWidth; ++i) most = lane[i] > most ? lane[i] : most;
    return most;
  }

  static Ints to_ints(Floats x) { return _mm256_cvttps_epi32(x); }
  static Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints multiply(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
  static Ints fill_ints(int32_t x) { return _mm256_set1_epi32(x); }
  static Ints larger(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  static Ints smaller(Ints a, Ints b) { return _mm256_min_epi32(a, b); }
  static Mask less(Ints a, Ints b) { return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a))}; }

  static Mask inside(Floats x, Floats size) {
    return {_mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(-1.f), _CMP_GT_OQ),
                          _mm256_cmp_ps(x, size, _CMP_LT_OQ))};
  }
  static Mask both(Mask a, Mask b) { return {_mm256_and_ps(a.bits, b.bits)}; }
  static Floats keep(Mask mask, Floats x) { return _mm256_and_ps(mask.bits, x); }
  static Ints keep(Mask mask, Ints x) {
    return _mm256_and_si256(_mm256_castps_si256(mask.bits), x);
  }

  static void store_scaled(int64_t* to, Ints x, int64_t scale) {
    // The low halves of 64-bit lanes: scale fits 32 bits (msda_cpu.h), so one multiply does.
    const __m256i factor = _mm256_set1_epi64x(scale);
    const __m256i low = _mm256_cvtepu32_epi64(_mm256_castsi256_si128(x));
    const __m256i high = _mm256_cvtepu32_epi64(_mm256_extracti128_si256(x, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_mul_epu32(low, factor));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4), _mm256_mul_epu32(high, factor));
  }
  static int append(int32_t* to, Mask mask, int32_t first) {
    int bits = _mm256_movemask_ps(mask.bits);
    int count = 0;
    while (bits != 0) {
      to[count++] = first + __builtin_ctz(static_cast<unsigned>(bits));
      bits &= bits - 1;
    }
    return count;
  }
};

}  // namespace avx2
}  // namespace
}  // namespace deform::kernels
