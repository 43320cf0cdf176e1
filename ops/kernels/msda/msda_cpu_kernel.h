// The CPU kernel, written once and compiled for each instruction set by msda_cpu_<set>.cpp.
// Linkage: see common/vector_plain.h.
#pragma once

#include "common/bilinear.h"
#include "msda/msda_cpu.h"

namespace deform::kernels {
namespace {

constexpr int64_t kMostLanes = 16;

inline int64_t padded_points(int64_t levels, int64_t points) {
  return (levels * points + kMostLanes - 1) / kMostLanes * kMostLanes;
}

// Scratch of one call, carved out of one block: all arrays hold `padded` points, so that vectors of
// points need no remainder, `weights` for each head. The level of each point is spread out once for
// a call.
template <class R>
struct Scratch {
  R *width, *height;
  int32_t *int_width, *int_height, *first_row;
  R *locations, *weights;
  R* padding;  // 0 for a point, -infinity past the last: added to logits
  PlacedPoints<R> placed;

  static int64_t bytes(int64_t padded, int64_t heads) {
    const int64_t reals = 2 + 2 + heads + 1 + kCorners;
    constexpr int64_t kInts = 3 + 2;
    return padded * (reals * sizeof(R) + kInts * sizeof(int32_t) + kCorners * sizeof(int64_t));
  }

  Scratch(void* block, int64_t padded, int64_t heads) {
    char* next = static_cast<char*>(block);
    const auto take = [&](auto*& array, int64_t arrays) {
      array = reinterpret_cast<decltype(+array)>(next);
      next += arrays * padded * static_cast<int64_t>(sizeof(*array));
    };
    for (auto& offset : placed.offset) take(offset, 1);
    for (auto& weight : placed.weight) take(weight, 1);
    take(width, 1);
    take(height, 1);
    take(locations, 2);
    take(weights, heads);
    take(padding, 1);
    take(int_width, 1);
    take(int_height, 1);
    take(first_row, 1);
    take(placed.counted, 2);  // Lanes::append writes whole vectors, past the last point
  }

  void spread_levels(const MsdaCpuArguments& a, int64_t padded) {
    for (int64_t p = 0; p < padded; ++p) {
      // Padding falls on a map of width -1, where no point counts: none has -1 < x < -1.
      const MsdaLevel level =
          p < a.levels * a.points ? a.level[p / a.points] : MsdaLevel{-1, -1, 0};
      width[p] = static_cast<R>(level.width);
      height[p] = static_cast<R>(level.height);
      int_width[p] = level.width;
      int_height[p] = level.height;
      first_row[p] = level.first_row;
      padding[p] = p < a.levels * a.points ? R(0) : -static_cast<R>(__builtin_inff());
    }
  }
};

// Copies `count` elements and fills up with zeros to `padded`. Where vectors can do it, by whole
// vectors: one that was stored in parts would have to wait for them when it is loaded again.
template <template <class> class Vector, class T, class R>
inline void widen_row(const T* from, int64_t count, int64_t padded, R* to) {
  int64_t i = 0;
  if constexpr (__is_same(typename Vector<T>::Register, typename Vector<R>::Register)) {
    constexpr int64_t kWidth = Vector<T>::kWidth;
    for (; count - i >= kWidth; i += kWidth) Vector<R>::store(to + i, Vector<T>::load(from + i));
    if (i < count) {
      Vector<R>::store(to + i, Vector<T>::load_some(from + i, count - i));
      i += kWidth;
    }
    for (; i < padded; i += kWidth) Vector<R>::store(to + i, Vector<R>::zero());
  } else {
    for (; i < count; ++i) to[i] = static_cast<R>(widen(from[i]));
    for (; i < padded; ++i) to[i] = R(0);
  }
}

template <template <class> class Vector, class R>
inline void widen_row(const void* from, Dtype dtype, int64_t first, int64_t count, int64_t padded,
                      R* to) {
  switch (dtype) {
    case Dtype::kFloat32:
      return widen_row<Vector>(static_cast<const float*>(from) + first, count, padded, to);
    case Dtype::kFloat16:
      return widen_row<Vector>(static_cast<const Half*>(from) + first, count, padded, to);
    case Dtype::kBFloat16:
      return widen_row<Vector>(static_cast<const BFloat16*>(from) + first, count, padded, to);
    case Dtype::kFloat64:
      return widen_row<Vector>(static_cast<const double*>(from) + first, count, padded, to);
  }
}

// Replaces `padded` logits by the softmax of logits + padding.
template <class Lanes, class R>
inline void softmax(R* logits, const R* padding, int64_t padded) {
  const auto logit = [&](int64_t p) {
    return Lanes::add(Lanes::load(logits + p), Lanes::load(padding + p));
  };
  auto most = logit(0);
  for (int64_t p = Lanes::kWidth; p < padded; p += Lanes::kWidth) {
    most = Lanes::larger(most, logit(p));
  }
  const auto largest = Lanes::fill(Lanes::largest(most));
  auto total = Lanes::fill(R(0));
  for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
    const auto e = Lanes::exp(Lanes::subtract(logit(p), largest));
    total = Lanes::add(total, e);
    Lanes::store(logits + p, e);
  }
  const auto share = Lanes::fill(R(1) / Lanes::sum(total));
  for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
    Lanes::store(logits + p, Lanes::multiply(Lanes::load(logits + p), share));
  }
}

template <template <class> class Vector, template <class> class LanesOf, class T>
inline void msda_range(const MsdaCpuArguments& a, int64_t begin, int64_t end, void* block) {
  using R = Real<T>;
  using Lanes = LanesOf<R>;
  const int64_t points = a.levels * a.points;
  const int64_t padded = padded_points(a.levels, a.points);
  const int64_t row_stride = a.heads * a.channels;
  Scratch<R> scratch(block, padded, a.heads);
  scratch.spread_levels(a, padded);
  const auto half = Lanes::fill(R(0.5));
  for (int64_t i = begin; i < end; ++i) {
    const T* image = static_cast<const T*>(a.value) + i / a.queries * a.rows * row_stride;
    T* out = static_cast<T*>(a.output) + i * row_stride;
    // All heads first: the steps of one softmax wait for each other, but not for another head's.
    for (int64_t head = 0; head < a.heads; ++head) {
      R* weights = scratch.weights + head * padded;
      widen_row<Vector>(a.weights, a.weights_dtype, (i * a.heads + head) * points, points, padded,
                        weights);
      if (a.softmax) softmax<Lanes>(weights, scratch.padding, padded);
    }
    for (int64_t head = 0; head < a.heads; ++head) {
      const int64_t first = (i * a.heads + head) * points;
      widen_row<Vector>(a.locations, a.locations_dtype, 2 * first, 2 * points, 2 * padded,
                        scratch.locations);
      const R* weights = scratch.weights + head * padded;
      PlacedPoints<R>& placed = scratch.placed;
      placed.count = 0;
      for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
        const MapOfLane<Lanes> map{Lanes::load(scratch.width + p), Lanes::load(scratch.height + p),
                                   Lanes::load_ints(scratch.int_width + p),
                                   Lanes::load_ints(scratch.int_height + p),
                                   Lanes::load_ints(scratch.first_row + p)};
        typename Lanes::Floats x, y;
        Lanes::load_pairs(scratch.locations + 2 * p, x, y);
        x = Lanes::multiply_subtract(x, map.width, half);
        y = Lanes::multiply_subtract(y, map.height, half);
        place<Lanes>(x, y, Lanes::load(weights + p), map, row_stride, p, placed);
      }
      gather_channels<Vector<T>>(image + head * a.channels, a.channels, placed,
                                 out + head * a.channels);
    }
  }
}

template <template <class> class Vector, template <class> class Lanes>
inline void msda(const MsdaCpuArguments& a, int64_t begin, int64_t end, void* scratch) {
  switch (a.value_dtype) {
    case Dtype::kFloat32:
      return msda_range<Vector, Lanes, float>(a, begin, end, scratch);
    case Dtype::kFloat16:
      return msda_range<Vector, Lanes, Half>(a, begin, end, scratch);
    case Dtype::kBFloat16:
      return msda_range<Vector, Lanes, BFloat16>(a, begin, end, scratch);
    case Dtype::kFloat64:
      return msda_range<Vector, Lanes, double>(a, begin, end, scratch);
  }
}

}  // namespace
}  // namespace deform::kernels
