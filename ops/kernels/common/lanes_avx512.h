// Sixteen sampling points at once with AVX-512. See lanes_plain.h for what each function does.
#pragma once

#include <immintrin.h>

#include "common/lanes_plain.h"

namespace deform::kernels {
namespace {
namespace avx512 {

template <class T>
struct Lanes : plain::Lanes<T> {};

template <>
struct Lanes<float> {
  static constexpr int kWidth = 16;
  using Real = float;
  using Floats = __m512;
  using Ints = __m512i;
  using Mask = __mmask16;

  static Floats fill(float x) { return _mm512_set1_ps(x); }
  static Floats load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
  static Ints load_ints(const int32_t* from) { return _mm512_loadu_si512(from); }
  static void load_pairs(const float* from, Floats& x, Floats& y) {
    const __m512 a = _mm512_loadu_ps(from);
    const __m512 b = _mm512_loadu_ps(from + 16);
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    x = _mm512_permutex2var_ps(a, even, b);
    y = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
  }
  static void store_pairs(float* to, Floats x, Floats y) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    _mm512_storeu_ps(to, _mm512_permutex2var_ps(x, low, y));
    _mm512_storeu_ps(to + 16,
                     _mm512_permutex2var_ps(x, _mm512_add_epi32(low, _mm512_set1_epi32(8)), y));
  }

  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats multiply_subtract(Floats a, Floats b, Floats c) { return _mm512_fmsub_ps(a, b, c); }
  static Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats floor(Floats x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  }
  // For x <= 0 or NaN: 2^n times a Taylor polynomial on [-ln2/2, ln2/2], within 2 ulp; results
  // below e^-87 are 0, and never computed: subnormal numbers are slow.
  static Floats exp(Floats x) {
    const __m512 lowest = _mm512_set1_ps(-87.f);
    const __mmask16 stays = _mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ);
    const __m512 clamped = _mm512_max_ps(lowest, x);
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(1.44269504f)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e400p-1f), clamped);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 p = _mm512_set1_ps(1.f / 5040);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f / 720));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.f));
    return _mm512_maskz_scalef_ps(stays, p, n);
  }
  static float sum(Floats x) { return _mm512_reduce_add_ps(x); }
  static float largest(Floats x) { return _mm512_reduce_max_ps(x); }

  static Ints to_ints(Floats x) { return _mm512_cvttps_epi32(x); }
  static Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints multiply(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
  static Ints fill_ints(int32_t x) { return _mm512_set1_epi32(x); }
  static Ints larger(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static Ints smaller(Ints a, Ints b) { return _mm512_min_epi32(a, b); }
  static Mask less(Ints a, Ints b) { return _mm512_cmplt_epi32_mask(a, b); }

  static Mask inside(Floats x, Floats size) {
    const Mask above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-1.f), _CMP_GT_OQ);
    return _mm512_mask_cmp_ps_mask(above, x, size, _CMP_LT_OQ);
  }
  static Mask both(Mask a, Mask b) { return a & b; }
  static Floats keep(Mask mask, Floats x) { return _mm512_maskz_mov_ps(mask, x); }
  static Ints keep(Mask mask, Ints x) { return _mm512_maskz_mov_epi32(mask, x); }

  static void store_scaled(int64_t* to, Ints x, int64_t scale) {
    // The low halves of 64-bit lanes: scale fits 32 bits (msda_cpu.h), so one multiply does.
    const __m512i factor = _mm512_set1_epi64(scale);
    const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(x));
    const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(x, 1));
    _mm512_storeu_si512(to, _mm512_mul_epu32(low, factor));
    _mm512_storeu_si512(to + 8, _mm512_mul_epu32(high, factor));
  }
  static int append(int32_t* to, Mask mask, int32_t first) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i ids = _mm512_add_epi32(lane, _mm512_set1_epi32(first));
    _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(mask, ids));
    return __builtin_popcount(mask);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace deform::kernels
