// The sums of four vectors' lanes, for dot products with four pixels at once. lane_sums_avx2.h and
// lane_sums_avx512.h have them for float without a detour through memory.
// Linkage: see vector_plain.h.
#pragma once

#include "common/vector_plain.h"

namespace deform::kernels {
namespace {
namespace plain {

template <class Vector, class R>
struct LaneSums {
  static void store(const typename Vector::Register (&vectors)[4], R* to0, R* to1, R* to2, R* to3) {
    R* const to[4] = {to0, to1, to2, to3};
    for (int v = 0; v < 4; ++v) {
      R lane[Vector::kWidth];
      Vector::store(lane, vectors[v]);
      // By halves, as the other instruction sets do it.
      for (int width = Vector::kWidth / 2; width >= 1; width /= 2) {
        for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
      }
      *to[v] = lane[0];
    }
  }
};

}  // namespace plain
}  // namespace
}  // namespace deform::kernels
