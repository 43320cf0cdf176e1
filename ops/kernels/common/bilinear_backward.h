// What a sampling point's gradient does to the four pixels around it. bilinear.h placed the point.
// An instruction set `Set` has templates Vector and LaneSums. Linkage: see vector_plain.h.
#pragma once

#include "common/bilinear.h"
#include "common/element_rows.h"

namespace deform::kernels {
namespace {

// One point, all channels: products of its corners with the result's gradient, and what the
// gradient adds to them. Two corners may be the same pixel, with a share of 0: each is stored
// before the next is loaded. The points' offsets count `pixel_step` elements of pixels and
// `sum_step` elements of sums.
template <class Set, class T>
inline void scatter_point(const T* pixels, Real<T>* sums, const Real<T>* gradient, int64_t channels,
                          const PlacedPoints<Real<T>>& placed, int32_t p,
                          Real<T>* const (&product)[kCorners], int64_t pixel_step = 1,
                          int64_t sum_step = 1) {
  using R = Real<T>;
  using Wide = typename Set::template Vector<R>;
  typename Wide::Register total[kCorners], weight[kCorners];
  const T* from[kCorners];
  R* to[kCorners];
  for (int c = 0; c < kCorners; ++c) {
    total[c] = Wide::zero();
    weight[c] = Wide::fill(placed.weight[c][p]);
    from[c] = pixels + placed.offset[c][p] * pixel_step;
    to[c] = sums + placed.offset[c][p] * sum_step;
  }
  int64_t d = 0;
  for (; channels - d >= Wide::kWidth; d += Wide::kWidth) {
    const auto g = Wide::load(gradient + d);
#pragma GCC unroll 4
    for (int c = 0; c < kCorners; ++c) {
      const auto pixel = load_wide<Set::template Vector>(from[c] + d);
      total[c] = Wide::multiply_add(g, pixel, total[c]);
      Wide::store(to[c] + d, Wide::multiply_add(weight[c], g, Wide::load(to[c] + d)));
    }
  }
  if (const int64_t some = channels - d; some > 0) {
    const auto g = Wide::load_some(gradient + d, some);
#pragma GCC unroll 4
    for (int c = 0; c < kCorners; ++c) {
      const auto pixel = load_wide<Set::template Vector>(from[c] + d, some);
      total[c] = Wide::multiply_add(g, pixel, total[c]);
      const auto sum = Wide::multiply_add(weight[c], g, Wide::load_some(to[c] + d, some));
      Wide::store_some(to[c] + d, sum, some);
    }
  }
  Set::template LaneSums<Wide, R>::store(total, product[kTopLeft] + p, product[kTopRight] + p,
                                         product[kBottomLeft] + p, product[kBottomRight] + p);
}

// How the points in some lanes change the result, in the direction of its gradient.
template <class Lanes>
struct PointDerivatives {
  typename Lanes::Floats by_weight, by_x, by_y;  // the latter for a weight of 1, in pixels
  typename Lanes::Mask counted;                  // of other points all are 0
};

// From the products of the points at (x, y), starting with point `p`. Products of points that don't
// count, and of corners past the border, may be anything.
template <class Lanes, class R>
inline PointDerivatives<Lanes> derive_points(typename Lanes::Floats x, typename Lanes::Floats y,
                                             const MapOfLane<Lanes>& map,
                                             R* const (&products)[kCorners], int64_t p) {
  const auto one = Lanes::fill(R(1));
  const auto next = Lanes::fill_ints(1), minus_one = Lanes::fill_ints(-1);
  const auto counted = Lanes::both(Lanes::inside(x, map.width), Lanes::inside(y, map.height));
  const auto left = Lanes::floor(x), top = Lanes::floor(y);
  const auto x0 = Lanes::to_ints(left), y0 = Lanes::to_ints(top);
  const auto has_left = Lanes::less(minus_one, x0), has_top = Lanes::less(minus_one, y0);
  const auto has_right = Lanes::less(Lanes::add(x0, next), map.int_width);
  const auto has_bottom = Lanes::less(Lanes::add(y0, next), map.int_height);
  const auto product = [&](Corner corner, auto column, auto line) {
    const auto within = Lanes::both(counted, Lanes::both(column, line));
    return Lanes::keep(within, Lanes::load(products[corner] + p));
  };
  const auto top_left = product(kTopLeft, has_left, has_top);
  const auto top_right = product(kTopRight, has_right, has_top);
  const auto bottom_left = product(kBottomLeft, has_left, has_bottom);
  const auto bottom_right = product(kBottomRight, has_right, has_bottom);

  // A point that doesn't count may have any place.
  const auto right_share = Lanes::keep(counted, Lanes::subtract(x, left));
  const auto bottom_share = Lanes::keep(counted, Lanes::subtract(y, top));
  const auto left_share = Lanes::subtract(one, right_share);
  const auto top_share = Lanes::subtract(one, bottom_share);
  const auto mix = [](auto a, auto first, auto b, auto second) {
    return Lanes::add(Lanes::multiply(a, first), Lanes::multiply(b, second));
  };
  const auto upper = mix(left_share, top_left, right_share, top_right);
  const auto lower = mix(left_share, bottom_left, right_share, bottom_right);
  return {mix(top_share, upper, bottom_share, lower),
          mix(top_share, Lanes::subtract(top_right, top_left), bottom_share,
              Lanes::subtract(bottom_right, bottom_left)),
          Lanes::subtract(lower, upper), counted};
}

}  // namespace
}  // namespace deform::kernels
