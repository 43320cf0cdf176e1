// Sums of four vectors' lanes with AVX-512. See lane_sums_plain.h.
#pragma once

#include "common/lane_sums_plain.h"
#include "common/vector_avx512.h"

namespace deform::kernels {
namespace {
namespace avx512 {

template <class Vector, class R>
struct LaneSums : plain::LaneSums<Vector, R> {};

template <class Vector>
struct LaneSums<Vector, float> {
  static void store(const __m512 (&v)[4], float* to0, float* to1, float* to2, float* to3) {
    const __m256 pairs01 = _mm256_hadd_ps(fold(v[0]), fold(v[1]));
    const __m256 pairs23 = _mm256_hadd_ps(fold(v[2]), fold(v[3]));
    const __m256 fours = _mm256_hadd_ps(pairs01, pairs23);
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1));
    _mm_store_ss(to0, sums);
    _mm_store_ss(to1, _mm_movehdup_ps(sums));
    _mm_store_ss(to2, _mm_unpackhi_ps(sums, sums));
    _mm_store_ss(to3, _mm_shuffle_ps(sums, sums, 0xff));
  }

 private:
  static __m256 fold(__m512 x) {
    return _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  }
};

}  // namespace avx512
}  // namespace
}  // namespace deform::kernels
