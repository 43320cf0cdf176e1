// Triples: points stored as x0 y0 z0 x1 y1 z1 … to lanes and back, Lanes<T>::kWidth points at once.
// This header has one lane; triples_avx2.h and triples_avx512.h have 8 and 16 in float.
// Linkage: see vector_plain.h.
#pragma once

#include "common/lanes_plain.h"

namespace deform::kernels {
namespace {
namespace plain {

template <class T>
struct Triples {
  using Floats = typename Lanes<T>::Floats;

  static void load(const T* from, Floats& x, Floats& y, Floats& z) {
    x = from[0];
    y = from[1];
    z = from[2];
  }
  static void store(T* to, Floats x, Floats y, Floats z) {
    to[0] = x;
    to[1] = y;
    to[2] = z;
  }
};

}  // namespace plain
}  // namespace
}  // namespace deform::kernels
