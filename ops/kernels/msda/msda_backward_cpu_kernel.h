// The backward CPU kernel, written once and compiled for each instruction set by
// msda_backward_cpu_<set>.cpp. Linkage: see common/vector_plain.h.
#pragma once

#include "common/bilinear_backward.h"
#include "msda/msda_cpu_points.h"

namespace deform::kernels {
namespace {

// Whether a head's gradients are added up in scratch: side by side as its pixels are, or because
// value's type is too coarse for sums.
inline bool sums_in_scratch(const MsdaCpuArguments& a, bool pack_heads) {
  return pack_heads || a.value_dtype == Dtype::kFloat16 || a.value_dtype == Dtype::kBFloat16;
}

template <class R>
struct MsdaBackwardScratch {
  Carver carver;
  int64_t padded;
  PointLevels<R> levels;
  PlacedPoints<R> placed;
  R *weights, *locations, *by_weight;
  R* product[kCorners];  // of the result's gradient and the corner's pixel, tiled
  R* gradient;           // of the result, [channels]
  R* pixels;             // of a head, [rows, channels]; with pack_heads
  R* sums;               // likewise, of pixels' gradients; with sums_in_scratch()

  MsdaBackwardScratch(void* block, const MsdaCpuArguments& a, bool pack_heads)
      : carver(block), padded(padded_to_lanes(a.levels * a.points)), levels(carver, padded) {
    take_placed(carver, padded, placed);
    weights = carver.take<R>(padded);
    locations = carver.take<R>(2 * padded);
    by_weight = carver.take<R>(padded);
    take_tiled(carver, padded, product);
    gradient = carver.take<R>(padded_to_lanes(a.channels));
    const int64_t plane = padded_to_lanes(a.rows * a.channels);
    pixels = carver.take<R>(pack_heads ? plane : 0);
    sums = carver.take<R>(sums_in_scratch(a, pack_heads) ? plane : 0);
  }
};

// From products to the gradients of locations, in place of the pixels there, and of weights.
template <class Lanes, class R>
inline void finish_points(MsdaBackwardScratch<R>& s, bool softmax) {
  auto mean = Lanes::fill(R(0));  // of the derivatives by normalised weights, weighted
  for (int64_t p = 0; p < s.padded; p += Lanes::kWidth) {
    const MapOfLane<Lanes> map = s.levels.template at<Lanes>(p);
    typename Lanes::Floats x, y;
    Lanes::load_pairs(s.locations + 2 * p, x, y);
    const auto by = derive_points<Lanes>(x, y, map, s.product, tiled(p));
    const auto weight = Lanes::load(s.weights + p);
    mean = Lanes::add(mean, Lanes::multiply(weight, by.by_weight));
    // The weight of a point that doesn't count may be anything.
    const auto scale = Lanes::keep(by.counted, weight);
    Lanes::store_pairs(s.locations + 2 * p,
                       Lanes::multiply(by.by_x, Lanes::multiply(scale, map.width)),
                       Lanes::multiply(by.by_y, Lanes::multiply(scale, map.height)));
    Lanes::store(s.by_weight + p, by.by_weight);
  }
  if (!softmax) return;
  const auto total = Lanes::fill(Lanes::sum(mean));
  for (int64_t p = 0; p < s.padded; p += Lanes::kWidth) {
    const auto centred = Lanes::subtract(Lanes::load(s.by_weight + p), total);
    Lanes::store(s.by_weight + p, Lanes::multiply(Lanes::load(s.weights + p), centred));
  }
}

// All queries of one head. Rows of `pixels` and `sums` are `pixel_step` and `sum_step` times
// a.channels elements apart.
template <class Set, class T, class P>
inline void visit_queries(const MsdaCpuArguments& a, const MsdaCpuGradients& gradients,
                          int64_t batch, int64_t head, const P* pixels, int64_t pixel_step,
                          Real<T>* sums, int64_t sum_step, MsdaBackwardScratch<Real<T>>& s) {
  using Lanes = typename Set::template Lanes<Real<T>>;
  constexpr int64_t kAhead = 6;  // queries
  const int64_t points = a.levels * a.points;
  for (int64_t query = 0; query < a.queries; ++query) {
    const int64_t i = (batch * a.queries + query) * a.heads + head;
    if (query + kAhead < a.queries) prefetch_points(a, i + kAhead * a.heads);
    read_weights<Set>(a, s.levels, i, s.padded, s.weights);
    place_points<Set, true>(a, s.levels, i, s.padded, s.weights, a.channels, s.locations, s.placed);
    widen_elements<Set::template Vector>(static_cast<const T*>(gradients.output) + i * a.channels,
                                         a.channels, a.channels, s.gradient);
    for (int64_t n = 0; n < s.placed.count; ++n) {
      scatter_point<Set>(pixels, sums, s.gradient, a.channels, s.placed, s.placed.counted[n],
                         s.product, pixel_step, sum_step);
    }
    finish_points<Lanes>(s, a.softmax);
    narrow_elements<Set::template Vector>(s.locations, 2 * points, gradients.locations,
                                          a.locations_dtype, 2 * i * points);
    narrow_elements<Set::template Vector>(s.by_weight, points, gradients.weights, a.weights_dtype,
                                          i * points);
  }
}

template <class R>
inline void clear_rows(R* to, int64_t stride, int64_t rows, int64_t channels) {
  for (int64_t row = 0; row < rows; ++row, to += stride) {
    for (int64_t d = 0; d < channels; ++d) to[d] = R(0);
  }
}

template <class Set, class T>
inline void msda_backward_as(const MsdaCpuArguments& a, const MsdaCpuGradients& gradients,
                             int64_t begin, int64_t end, void* block) {
  using R = Real<T>;
  const int64_t row_stride = a.heads * a.channels;
  MsdaBackwardScratch<R> s(block, a, gradients.pack_heads);
  s.levels.spread(a, s.padded);
  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / a.heads, head = task % a.heads;
    const int64_t first_element = batch * a.rows * row_stride + head * a.channels;
    const T* pixels = static_cast<const T*>(a.value) + first_element;
    T* to = static_cast<T*>(gradients.value) + first_element;
    if constexpr (__is_same(T, R)) {
      if (!gradients.pack_heads) {
        clear_rows(to, row_stride, a.rows, a.channels);
        visit_queries<Set, T>(a, gradients, batch, head, pixels, a.heads, to, a.heads, s);
        continue;
      }
    }
    clear_rows(s.sums, a.channels, a.rows, a.channels);
    if (gradients.pack_heads) {
      pack_rows<Set>(pixels, row_stride, a.rows, a.channels, s.pixels);
      visit_queries<Set, T>(a, gradients, batch, head, s.pixels, 1, s.sums, 1, s);
    } else {
      visit_queries<Set, T>(a, gradients, batch, head, pixels, a.heads, s.sums, 1, s);
    }
    for (int64_t row = 0; row < a.rows; ++row) {
      narrow_elements<Set::template Vector>(s.sums + row * a.channels, a.channels,
                                            to + row * row_stride);
    }
  }
}

template <class Set>
inline void msda_backward(const MsdaCpuArguments& a, const MsdaCpuGradients& gradients,
                          int64_t begin, int64_t end, void* scratch) {
  switch (a.value_dtype) {
    case Dtype::kFloat32:
      return msda_backward_as<Set, float>(a, gradients, begin, end, scratch);
    case Dtype::kFloat16:
      return msda_backward_as<Set, Half>(a, gradients, begin, end, scratch);
    case Dtype::kBFloat16:
      return msda_backward_as<Set, BFloat16>(a, gradients, begin, end, scratch);
    case Dtype::kFloat64:
      return msda_backward_as<Set, double>(a, gradients, begin, end, scratch);
  }
}

}  // namespace
}  // namespace deform::kernels
