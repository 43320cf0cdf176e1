// Eight triples at once with AVX2. See triples_plain.h for what each function does.
#pragma once

#include "common/lanes_avx2.h"
#include "common/triples_plain.h"

namespace deform::kernels {
namespace {
namespace avx2 {

template <class T>
struct Triples : plain::Triples<T> {};

// Element 3i + j of 24 is lane (3i + j) % 8 of one of three vectors: no two x share a lane. So a
// blend collects all x, in the order of (3i) % 8, and a permutation sorts them; y and z likewise.
template <>
struct Triples<float> {
  using Floats = __m256;

  static void load(const float* from, Floats& x, Floats& y, Floats& z) {
    const __m256 a = _mm256_loadu_ps(from);
    const __m256 b = _mm256_loadu_ps(from + 8);
    const __m256 c = _mm256_loadu_ps(from + 16);
    const __m256 xs = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x92), c, 0x24);
    const __m256 ys = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x24), c, 0x49);
    const __m256 zs = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x49), c, 0x92);
    x = _mm256_permutevar8x32_ps(xs, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    y = _mm256_permutevar8x32_ps(ys, _mm256_setr_epi32(1, 4, 7, 2, 5, 0, 3, 6));
    z = _mm256_permutevar8x32_ps(zs, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
  }
  static void store(float* to, Floats x, Floats y, Floats z) {
    const __m256 xs = _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
    const __m256 ys = _mm256_permutevar8x32_ps(y, _mm256_setr_epi32(5, 0, 3, 6, 1, 4, 7, 2));
    const __m256 zs = _mm256_permutevar8x32_ps(z, _mm256_setr_epi32(2, 5, 0, 3, 6, 1, 4, 7));
    _mm256_storeu_ps(to, _mm256_blend_ps(_mm256_blend_ps(xs, ys, 0x92), zs, 0x24));
    _mm256_storeu_ps(to + 8, _mm256_blend_ps(_mm256_blend_ps(xs, ys, 0x24), zs, 0x49));
    _mm256_storeu_ps(to + 16, _mm256_blend_ps(_mm256_blend_ps(xs, ys, 0x49), zs, 0x92));
  }
};

}  // namespace avx2
}  // namespace
}  // namespace deform::kernels
