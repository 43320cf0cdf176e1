// Sixteen triples at once with AVX-512. See triples_plain.h for what each function does, and
// triples_avx2.h for how.
#pragma once

#include "common/lanes_avx512.h"
#include "common/triples_plain.h"

namespace deform::kernels {
namespace {
namespace avx512 {

template <class T>
struct Triples : plain::Triples<T> {};

template <>
struct Triples<float> {
  using Floats = __m512;

  static void load(const float* from, Floats& x, Floats& y, Floats& z) {
    const __m512 a = _mm512_loadu_ps(from);
    const __m512 b = _mm512_loadu_ps(from + 16);
    const __m512 c = _mm512_loadu_ps(from + 32);
    const __m512i x_order = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13);
    const __m512i y_order = _mm512_setr_epi32(1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14);
    const __m512i z_order = _mm512_setr_epi32(2, 5, 8, 11, 14, 1, 4, 7, 10, 13, 0, 3, 6, 9, 12, 15);
    x = _mm512_permutexvar_ps(x_order, blend(a, b, c, 0x4924, 0x2492));
    y = _mm512_permutexvar_ps(y_order, blend(a, b, c, 0x9249, 0x4924));
    z = _mm512_permutexvar_ps(z_order, blend(a, b, c, 0x2492, 0x9249));
  }
  static void store(float* to, Floats x, Floats y, Floats z) {
    const __m512i x_order = _mm512_setr_epi32(0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5);
    const __m512i y_order = _mm512_setr_epi32(5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10);
    const __m512i z_order = _mm512_setr_epi32(10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15);
    const __m512 xs = _mm512_permutexvar_ps(x_order, x);
    const __m512 ys = _mm512_permutexvar_ps(y_order, y);
    const __m512 zs = _mm512_permutexvar_ps(z_order, z);
    _mm512_storeu_ps(to, blend(xs, ys, zs, 0x2492, 0x4924));
    _mm512_storeu_ps(to + 16, blend(xs, ys, zs, 0x9249, 0x2492));
    _mm512_storeu_ps(to + 32, blend(xs, ys, zs, 0x4924, 0x9249));
  }

 private:
  static __m512 blend(__m512 a, __m512 b, __m512 c, __mmask16 from_b, __mmask16 from_c) {
    return _mm512_mask_mov_ps(_mm512_mask_mov_ps(a, from_b, b), from_c, c);
  }
};

}  // namespace avx512
}  // namespace
}  // namespace deform::kernels
