// Rows of elements of any type, to and from the type that kernels compute in.
// Linkage: see vector_plain.h.
#pragma once

#include "common/dtype.h"
#include "common/vector_plain.h"

namespace deform::kernels {
namespace {

template <class A, class B>
constexpr bool kSameRegister = __is_same(typename A::Register, typename B::Register);

// Vector<R>::kWidth elements, or the first `some` of them if that isn't 0, widened.
template <template <class> class Vector, class T>
inline typename Vector<Real<T>>::Register load_wide(const T* from, int64_t some = 0) {
  using Wide = Vector<Real<T>>;
  if constexpr (kSameRegister<Vector<T>, Wide>) {
    return some > 0 ? Vector<T>::load_some(from, some) : Vector<T>::load(from);
  } else {
    Real<T> wide[Wide::kWidth] = {};
    for (int64_t i = 0; i < (some > 0 ? some : Wide::kWidth); ++i) wide[i] = widen(from[i]);
    return Wide::load(wide);
  }
}

// Elements [first, first + count) of an array into `to`, then zeros up to `padded`. Past those, up
// to a vector of `to` may be written.
template <template <class> class Vector, class T, class R>
inline void widen_elements(const T* from, int64_t count, int64_t padded, R* to) {
  int64_t i = 0;
  if constexpr (__is_same(Real<T>, R)) {
    constexpr int64_t kWidth = Vector<R>::kWidth;
    for (; count - i >= kWidth; i += kWidth) {
      Vector<R>::store(to + i, load_wide<Vector, T>(from + i));
    }
    if (i < count) {
      Vector<R>::store(to + i, load_wide<Vector, T>(from + i, count - i));
      i += kWidth;
    }
    for (; i < padded; i += kWidth) Vector<R>::store(to + i, Vector<R>::zero());
  } else {
    for (; i < count; ++i) to[i] = static_cast<R>(widen(from[i]));
    for (; i < padded; ++i) to[i] = R(0);
  }
}

template <template <class> class Vector, class R>
inline void widen_elements(const void* from, Dtype dtype, int64_t first, int64_t count,
                           int64_t padded, R* to) {
  switch (dtype) {
    case Dtype::kFloat32:
      return widen_elements<Vector>(static_cast<const float*>(from) + first, count, padded, to);
    case Dtype::kFloat16:
      return widen_elements<Vector>(static_cast<const Half*>(from) + first, count, padded, to);
    case Dtype::kBFloat16:
      return widen_elements<Vector>(static_cast<const BFloat16*>(from) + first, count, padded, to);
    case Dtype::kFloat64:
      return widen_elements<Vector>(static_cast<const double*>(from) + first, count, padded, to);
  }
}

// `count` elements into an array's [first, first + count), and nothing past them.
template <template <class> class Vector, class R, class T>
inline void narrow_elements(const R* from, int64_t count, T* to) {
  int64_t i = 0;
  if constexpr (__is_same(Real<T>, R) && kSameRegister<Vector<T>, Vector<R>>) {
    constexpr int64_t kWidth = Vector<R>::kWidth;
    for (; count - i >= kWidth; i += kWidth) Vector<T>::store(to + i, Vector<R>::load(from + i));
    if (i < count) {
      Vector<T>::store_some(to + i, Vector<R>::load_some(from + i, count - i), count - i);
    }
  } else {
    for (; i < count; ++i) to[i] = narrow<T>(static_cast<Real<T>>(from[i]));
  }
}

template <template <class> class Vector, class R>
inline void narrow_elements(const R* from, int64_t count, void* to, Dtype dtype, int64_t first) {
  switch (dtype) {
    case Dtype::kFloat32:
      return narrow_elements<Vector>(from, count, static_cast<float*>(to) + first);
    case Dtype::kFloat16:
      return narrow_elements<Vector>(from, count, static_cast<Half*>(to) + first);
    case Dtype::kBFloat16:
      return narrow_elements<Vector>(from, count, static_cast<BFloat16*>(to) + first);
    case Dtype::kFloat64:
      return narrow_elements<Vector>(from, count, static_cast<double*>(to) + first);
  }
}

}  // namespace
}  // namespace deform::kernels
