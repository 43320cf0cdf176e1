// Lanes: arithmetic on a handful of sampling points at once, one point a lane. This header has one
// lane, in float or double; lanes_avx2.h and lanes_avx512.h have 8 and 16 in float.
//
// Linkage: see vector_plain.h. Arrays handed to load and store hold a multiple of kWidth elements.
#pragma once

#include <limits.h>

#include "common/vector_plain.h"

namespace deform::kernels {
namespace {
namespace plain {

template <class T>
struct Lanes {
  static constexpr int kWidth = 1;
  using Real = T;
  using Floats = T;
  using Ints = int32_t;
  using Mask = bool;

  static Floats fill(Real x) { return x; }
  static Floats load(const Real* from) { return *from; }
  static void store(Real* to, Floats x) { *to = x; }
  static Ints load_ints(const int32_t* from) { return *from; }
  // Splits x0 y0 x1 y1 … into the xs and the ys.
  static void load_pairs(const Real* from, Floats& x, Floats& y) {
    x = from[0];
    y = from[1];
  }
  static void store_pairs(Real* to, Floats x, Floats y) {
    to[0] = x;
    to[1] = y;
  }

  static Floats add(Floats a, Floats b) { return a + b; }
  static Floats subtract(Floats a, Floats b) { return a - b; }
  static Floats multiply(Floats a, Floats b) { return a * b; }
  static Floats multiply_subtract(Floats a, Floats b, Floats c) { return a * b - c; }
  // The larger; NaN where `b` is NaN.
  static Floats larger(Floats a, Floats b) { return a > b ? a : b; }
  static Floats floor(Floats x) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return __builtin_floorf(x);
    } else {
      return __builtin_floor(x);
    }
  }
  static Floats exp(Floats x) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return __builtin_expf(x);
    } else {
      return __builtin_exp(x);
    }
  }
  static Real sum(Floats x) { return x; }
  static Real largest(Floats x) { return x; }

  // Rounds towards zero; any number where the result isn't representable, NaN included.
  static Ints to_ints(Floats x) {
    return x > Real(INT_MIN) && x < Real(INT_MAX) ? static_cast<Ints>(x) : 0;
  }
  static Ints add(Ints a, Ints b) { return a + b; }
  static Ints multiply(Ints a, Ints b) { return a * b; }
  static Ints fill_ints(int32_t x) { return x; }
  static Ints larger(Ints a, Ints b) { return a > b ? a : b; }
  static Ints smaller(Ints a, Ints b) { return a < b ? a : b; }
  static Mask less(Ints a, Ints b) { return a < b; }

  // -1 < x < size; false for NaN.
  static Mask inside(Floats x, Floats size) { return x > Real(-1) && x < size; }
  static Mask both(Mask a, Mask b) { return a && b; }
  static Floats keep(Mask mask, Floats x) { return mask ? x : Real(0); }
  static Ints keep(Mask mask, Ints x) { return mask ? x : 0; }

  // to[i] = x[i] * scale, in 64 bits, for x that isn't negative.
  static void store_scaled(int64_t* to, Ints x, int64_t scale) { *to = x * scale; }
  // Writes first + i for each set lane i, in order; returns how many. May write kWidth elements.
  static int append(int32_t* to, Mask mask, int32_t first) {
    *to = first;
    return mask ? 1 : 0;
  }
};

}  // namespace plain
}  // namespace
}  // namespace deform::kernels
