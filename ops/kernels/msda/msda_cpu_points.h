// The points of multi-scale deformable attention in lanes, for the CPU kernels of both directions.
// An instruction set `Set` has templates Vector, Lanes and, for the backward, LaneSums.
// Linkage: see common/vector_plain.h.
#pragma once

#include "common/bilinear.h"
#include "common/element_rows.h"
#include "msda/msda_cpu.h"

namespace deform::kernels {
namespace {

constexpr int64_t kMostLanes = 16;

inline int64_t padded_to_lanes(int64_t count) {
  return (count + kMostLanes - 1) / kMostLanes * kMostLanes;
}

// Carves arrays out of one block, each a multiple of 64 bytes where `count` is one of kMostLanes.
// Without a block it only counts their bytes.
class Carver {
 public:
  explicit Carver(void* block) : block_(static_cast<char*>(block)) {}
  template <class T>
  T* take(int64_t count) {
    T* const array = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + bytes_);
    bytes_ += count * static_cast<int64_t>(sizeof(T));
    return array;
  }
  int64_t bytes() const { return bytes_; }

 private:
  char* block_;
  int64_t bytes_ = 0;
};

// Four arrays, one a corner, in tiles: kMostLanes elements of the first, as many of each other,
// then the next ones of the first. So one address does for all corners of a point.
inline int64_t tiled(int64_t p) {
  return p / kMostLanes * (kCorners * kMostLanes) + p % kMostLanes;
}

template <class T>
inline void take_tiled(Carver& carver, int64_t padded, T* (&corner)[kCorners]) {
  corner[0] = carver.take<T>(kCorners * padded);
  for (int c = 1; c < kCorners; ++c) corner[c] = corner[0] + c * kMostLanes;
}

template <class R>
inline void take_placed(Carver& carver, int64_t padded, PlacedPoints<R>& placed) {
  take_tiled(carver, padded, placed.offset);
  take_tiled(carver, padded, placed.weight);
  placed.counted = carver.take<int32_t>(2 * padded);  // Lanes::append writes whole vectors
}

// The level of each of a query and head's points, and of those up to `padded`, which are on none.
template <class R>
struct PointLevels {
  R *width, *height;
  int32_t *int_width, *int_height, *first_row;
  R* padding;  // 0 for a point, -infinity past the last: added to logits

  PointLevels(Carver& carver, int64_t padded) {
    width = carver.take<R>(padded);
    height = carver.take<R>(padded);
    padding = carver.take<R>(padded);
    int_width = carver.take<int32_t>(padded);
    int_height = carver.take<int32_t>(padded);
    first_row = carver.take<int32_t>(padded);
  }

  void spread(const MsdaCpuArguments& a, int64_t padded) {
    for (int64_t p = 0; p < padded; ++p) {
      const bool exists = p < a.levels * a.points;
      // Padding falls on a map of width -1, where no point counts: none has -1 < x < -1.
      const MsdaLevel level = exists ? a.level[p / a.points] : MsdaLevel{-1, -1, 0};
      width[p] = static_cast<R>(level.width);
      height[p] = static_cast<R>(level.height);
      int_width[p] = level.width;
      int_height[p] = level.height;
      first_row[p] = level.first_row;
      padding[p] = exists ? R(0) : -static_cast<R>(__builtin_inff());
    }
  }

  template <class Lanes>
  MapOfLane<Lanes> at(int64_t p) const {
    return {Lanes::load(width + p), Lanes::load(height + p), Lanes::load_ints(int_width + p),
            Lanes::load_ints(int_height + p), Lanes::load_ints(first_row + p)};
  }
};

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

inline int64_t bytes_of(Dtype dtype) {
  return dtype == Dtype::kFloat64 ? 8 : dtype == Dtype::kFloat32 ? 4 : 2;
}

// Asks for the weights and locations of a query and head ahead of time: one head's stand too far
// apart for the processor to see what comes next.
inline void prefetch_points(const MsdaCpuArguments& a, int64_t query_head) {
  constexpr int64_t kLine = 64;
  const auto ask = [&](const void* array, int64_t bytes) {
    const char* from = static_cast<const char*>(array) + query_head * bytes;
    for (int64_t line = 0; line < bytes; line += kLine) __builtin_prefetch(from + line);
  };
  const int64_t points = a.levels * a.points;
  ask(a.weights, points * bytes_of(a.weights_dtype));
  ask(a.locations, 2 * points * bytes_of(a.locations_dtype));
}

// Reads the weights of query and head `query_head`, normalised where that is asked for.
template <class Set, class R>
inline void read_weights(const MsdaCpuArguments& a, const PointLevels<R>& levels,
                         int64_t query_head, int64_t padded, R* weights) {
  const int64_t points = a.levels * a.points;
  widen_elements<Set::template Vector>(a.weights, a.weights_dtype, query_head * points, points,
                                       padded, weights);
  if (a.softmax) softmax<typename Set::template Lanes<R>>(weights, levels.padding, padded);
}

// Reads the locations of a query and head, and places its points, tiled, in a value of
// `row_stride`. With kKeep, `locations` are left as pixels, x and y in turns.
template <class Set, bool kKeep, class R>
inline void place_points(const MsdaCpuArguments& a, const PointLevels<R>& levels,
                         int64_t query_head, int64_t padded, const R* weights, int64_t row_stride,
                         R* locations, PlacedPoints<R>& placed) {
  using Lanes = typename Set::template Lanes<R>;
  const int64_t points = a.levels * a.points;
  widen_elements<Set::template Vector>(a.locations, a.locations_dtype, 2 * query_head * points,
                                       2 * points, 2 * padded, locations);
  const auto half = Lanes::fill(R(0.5));
  placed.count = 0;
  for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
    const MapOfLane<Lanes> map = levels.template at<Lanes>(p);
    typename Lanes::Floats x, y;
    Lanes::load_pairs(locations + 2 * p, x, y);
    x = Lanes::multiply_subtract(x, map.width, half);
    y = Lanes::multiply_subtract(y, map.height, half);
    if constexpr (kKeep) Lanes::store_pairs(locations + 2 * p, x, y);
    place<Lanes>(x, y, Lanes::load(weights + p), map, row_stride, tiled(p), placed);
  }
}

// Copies `rows` rows of `channels` elements, `stride` apart, to stand side by side, widened.
template <class Set, class T>
inline void pack_rows(const T* from, int64_t stride, int64_t rows, int64_t channels, Real<T>* to) {
  using R = Real<T>;
  using Wide = typename Set::template Vector<R>;
  for (int64_t row = 0; row < rows; ++row, from += stride, to += channels) {
    int64_t d = 0;
    for (; channels - d >= Wide::kWidth; d += Wide::kWidth) {
      Wide::store(to + d, load_wide<Set::template Vector>(from + d));
    }
    if (const int64_t some = channels - d; some > 0) {
      Wide::store_some(to + d, load_wide<Set::template Vector>(from + d, some), some);
    }
  }
}

}  // namespace
}  // namespace deform::kernels
