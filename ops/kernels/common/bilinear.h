// Where a sampling point reads: the four pixels around it and the share of each.
// Linkage: see vector_plain.h.
#pragma once

#include "common/lanes_plain.h"

namespace deform::kernels {
namespace {

enum Corner : int { kTopLeft, kTopRight, kBottomLeft, kBottomRight, kCorners };

// The points of one output element, in arrays of `capacity` elements (a multiple of Lanes::kWidth).
// Only points listed in `counted`, those with -1 < x < width and -1 < y < height, are to be read.
// Offsets of a counted point always lie inside its map: a corner past the border has weight 0 and
// the offset of the neighbour within.
template <class R>
struct PlacedPoints {
  R* weight[kCorners];
  int64_t* offset[kCorners];
  int32_t* counted;
  int64_t count;
};

// The map that each lane's point falls on. `first_row` is the row of the map's pixel (0, 0).
template <class Lanes>
struct MapOfLane {
  typename Lanes::Floats width, height;
  typename Lanes::Ints int_width, int_height, first_row;
};

// Places Lanes::kWidth points at `index`. (x, y) are pixels; `share` scales the point's corners;
// offsets are row numbers times `row_stride`, which must be below 2^32.
template <class Lanes, class R>
inline void place(typename Lanes::Floats x, typename Lanes::Floats y, typename Lanes::Floats share,
                  const MapOfLane<Lanes>& map, int64_t row_stride, int64_t index,
                  PlacedPoints<R>& points) {
  const auto counted = Lanes::both(Lanes::inside(x, map.width), Lanes::inside(y, map.height));
  const auto left = Lanes::floor(x);
  const auto top = Lanes::floor(y);
  const auto one = Lanes::fill_ints(1);
  const auto none = Lanes::fill_ints(0);
  const auto minus_one = Lanes::fill_ints(-1);
  const auto x0 = Lanes::keep(counted, Lanes::to_ints(left));
  const auto y0 = Lanes::keep(counted, Lanes::to_ints(top));
  const auto x1 = Lanes::add(x0, one);
  const auto y1 = Lanes::add(y0, one);

  const auto to_right = Lanes::subtract(x, left);
  const auto to_bottom = Lanes::subtract(y, top);
  const auto unit = Lanes::fill(typename Lanes::Real(1));
  const auto w_left = Lanes::keep(Lanes::less(minus_one, x0), Lanes::subtract(unit, to_right));
  const auto w_right = Lanes::keep(Lanes::less(x1, map.int_width), to_right);
  const auto w_top = Lanes::multiply(
      share, Lanes::keep(Lanes::less(minus_one, y0), Lanes::subtract(unit, to_bottom)));
  const auto w_bottom =
      Lanes::multiply(share, Lanes::keep(Lanes::less(y1, map.int_height), to_bottom));
  Lanes::store(points.weight[kTopLeft] + index, Lanes::multiply(w_top, w_left));
  Lanes::store(points.weight[kTopRight] + index, Lanes::multiply(w_top, w_right));
  Lanes::store(points.weight[kBottomLeft] + index, Lanes::multiply(w_bottom, w_left));
  Lanes::store(points.weight[kBottomRight] + index, Lanes::multiply(w_bottom, w_right));

  const auto column0 = Lanes::larger(x0, none);
  const auto column1 = Lanes::smaller(x1, Lanes::add(map.int_width, minus_one));
  const auto row_of = [&](typename Lanes::Ints line) {
    return Lanes::add(map.first_row, Lanes::multiply(line, map.int_width));
  };
  const auto row0 = row_of(Lanes::larger(y0, none));
  const auto row1 = row_of(Lanes::smaller(y1, Lanes::add(map.int_height, minus_one)));
  Lanes::store_scaled(points.offset[kTopLeft] + index, Lanes::add(row0, column0), row_stride);
  Lanes::store_scaled(points.offset[kTopRight] + index, Lanes::add(row0, column1), row_stride);
  Lanes::store_scaled(points.offset[kBottomLeft] + index, Lanes::add(row1, column0), row_stride);
  Lanes::store_scaled(points.offset[kBottomRight] + index, Lanes::add(row1, column1), row_stride);
  points.count +=
      Lanes::append(points.counted + points.count, counted, static_cast<int32_t>(index));
}

// Adds up `kRegisters` vectors of channels over all counted points, from `base` on, into `out`.
// With `some` > 0, kRegisters is 1 and only that many channels of the vector exist. Where the
// arrays of corners are known to stand kApart elements apart, one address does for all four.
template <class Vector, int kRegisters, int64_t kApart = 0, class T>
inline void gather(const T* base, const PlacedPoints<Real<T>>& points, T* out, int64_t some = 0) {
  // One sum a corner where registers allow: four short chains of additions instead of a long one.
  constexpr int kChains = kRegisters <= 2 ? 4 : 2;
  typename Vector::Register sum[kChains][kRegisters];
  for (auto& chain : sum) {
    for (auto& part : chain) part = Vector::zero();
  }
  for (int64_t i = 0; i < points.count; ++i) {
    const int32_t p = points.counted[i];
#pragma GCC unroll 4
    for (int c = 0; c < kCorners; ++c) {
      const T* row = base + (kApart > 0 ? points.offset[0][p + c * kApart] : points.offset[c][p]);
      const auto weight =
          Vector::fill(kApart > 0 ? points.weight[0][p + c * kApart] : points.weight[c][p]);
#pragma GCC unroll 4
      for (int r = 0; r < kRegisters; ++r) {
        const auto pixels =
            some > 0 ? Vector::load_some(row, some) : Vector::load(row + r * Vector::kWidth);
        auto& part = sum[c % kChains][r];
        part = Vector::multiply_add(weight, pixels, part);
      }
    }
  }
  for (int r = 0; r < kRegisters; ++r) {
    auto total = Vector::add(sum[0][r], sum[1][r]);
    if constexpr (kChains == 4) total = Vector::add(total, Vector::add(sum[2][r], sum[3][r]));
    if (some > 0) {
      Vector::store_some(out, total, some);
    } else {
      Vector::store(out + r * Vector::kWidth, total);
    }
  }
}

// Adds up `channels` channels, in the widest blocks that fit.
template <class Vector, int64_t kApart = 0, class T>
inline void gather_channels(const T* base, int64_t channels, const PlacedPoints<Real<T>>& points,
                            T* out) {
  constexpr int64_t kWidth = Vector::kWidth;
  int64_t c = 0;
  for (; channels - c >= 4 * kWidth; c += 4 * kWidth)
    gather<Vector, 4, kApart>(base + c, points, out + c);
  if (channels - c >= 2 * kWidth) {
    gather<Vector, 2, kApart>(base + c, points, out + c);
    c += 2 * kWidth;
  }
  if (channels - c >= kWidth) {
    gather<Vector, 1, kApart>(base + c, points, out + c);
    c += kWidth;
  }
  if (c < channels) gather<Vector, 1, kApart>(base + c, points, out + c, channels - c);
}

}  // namespace
}  // namespace deform::kernels
