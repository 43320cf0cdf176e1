// The backward CPU kernel, written once and compiled for each instruction set by
// attn_backward_cpu_<set>.cpp. Linkage: see common/vector_plain.h.
#pragma once

#include "attn/attn_cpu_points.h"
#include "common/bilinear_backward.h"

namespace deform::kernels {
namespace {

template <class Lanes>
struct AttnBackwardScratch {
  using R = typename Lanes::Real;
  Carver carver;
  int64_t padded;
  PointScratch<R> points;
  Softmax<Lanes> softmax;
  R *x, *y;              // of each point, in pixels
  R* product[kCorners];  // of the result's gradient and the corner's pixel
  R* gradient;           // of the result, [channels]

  AttnBackwardScratch(void* block, const AttnCpuArguments& a)
      : carver(block),
        padded(padded_to_lanes(a.grid.points)),
        points(carver, padded),
        softmax(carver, a.grid.points) {
    x = carver.take<R>(padded);
    y = carver.take<R>(padded);
    for (auto& array : product) array = carver.take<R>(padded);
    gradient = carver.take<R>(padded_to_lanes(a.channels));
  }
};

// From products to the gradients of dx, dy and weight, over the triples.
template <class Set, class Lanes>
inline void finish_points(const AttnBackwardScratch<Lanes>& s, const Anchor<Lanes>& anchor,
                          bool softmax) {
  using R = typename Lanes::Real;
  const R* weights = s.points.weights;
  auto mean = Lanes::fill(R(0));
  for (int64_t p = 0; p < s.padded; p += Lanes::kWidth) {
    const PointDerivatives<Lanes> point =
        derive_points<Lanes>(Lanes::load(s.x + p), Lanes::load(s.y + p), anchor.map, s.product, p);
    const auto weight = Lanes::load(weights + p);
    // The weight of a point that doesn't count may be anything.
    const auto by_place = Lanes::keep(point.counted, Lanes::multiply(weight, anchor.spread));
    mean = Lanes::add(mean, Lanes::multiply(weight, point.by_weight));
    Set::template Triples<R>::store(s.points.triples + 3 * p, Lanes::multiply(point.by_x, by_place),
                                    Lanes::multiply(point.by_y, by_place), point.by_weight);
  }
  if (!softmax) return;
  const auto total = Lanes::fill(Lanes::sum(mean));
  for (int64_t p = 0; p < s.padded; p += Lanes::kWidth) {
    typename Lanes::Floats by_x, by_y, by_weight;
    Set::template Triples<R>::load(s.points.triples + 3 * p, by_x, by_y, by_weight);
    const auto by_logit =
        Lanes::multiply(Lanes::load(weights + p), Lanes::subtract(by_weight, total));
    Set::template Triples<R>::store(s.points.triples + 3 * p, by_x, by_y, by_logit);
  }
}

template <class Set, class T>
inline void attn_backward_range(const AttnCpuArguments& a, const AttnCpuGradients& gradients,
                                int64_t begin, int64_t end, void* block) {
  using R = Real<T>;
  using Lanes = typename Set::template Lanes<R>;
  const int64_t count = a.grid.points;
  const int64_t row_stride = a.groups * a.channels;
  const int64_t outputs = a.out_height * a.out_width;
  AttnBackwardScratch<Lanes> scratch(block, a);
  const int64_t padded = scratch.padded;
  PointScratch<R>& points = scratch.points;
  points.lay_grid(a.grid, 1, padded);
  scratch.softmax.prepare();
  Anchor<Lanes> anchor(a);
  // Lanes past the last point have no weight.
  for (int64_t p = 0; p < padded; ++p) points.weights[p] = R(0);

  for (int64_t task = begin; task < end; ++task) {
    const int64_t batch = task / a.groups, group = task % a.groups;
    const int64_t first_element = batch * a.height * a.width * row_stride + group * a.channels;
    const T* pixels = static_cast<const T*>(a.value) + first_element;
    R* sums = static_cast<R*>(gradients.value) + first_element;
    for (int64_t o = 0; o < outputs; ++o) {
      const int64_t i = batch * outputs + o;
      const int64_t first_triple = i * a.row_elements + group * count * 3;
      widen_elements<Set::template Vector>(a.offset_mask, a.offset_dtype, first_triple, 3 * count,
                                           3 * padded, points.triples);
      for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
        typename Lanes::Floats dx, dy, logit;
        Set::template Triples<R>::load(points.triples + 3 * p, dx, dy, logit);
        Lanes::store((a.softmax ? points.logits : points.weights) + p, logit);
      }
      if (a.softmax) scratch.softmax(points.logits, points.weights);
      anchor.move_to(a.grid, o / a.out_width, o % a.out_width);
      points.placed.count = 0;
      for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
        typename Lanes::Floats dx, dy, logit;
        Set::template Triples<R>::load(points.triples + 3 * p, dx, dy, logit);
        const auto x = anchor.place(dx, anchor.x, points.grid_x + p);
        const auto y = anchor.place(dy, anchor.y, points.grid_y + p);
        Lanes::store(scratch.x + p, x);
        Lanes::store(scratch.y + p, y);
        place<Lanes>(x, y, Lanes::load(points.weights + p), anchor.map, row_stride, p,
                     points.placed);
      }
      widen_elements<Set::template Vector>(
          static_cast<const T*>(gradients.output) + i * row_stride + group * a.channels, a.channels,
          a.channels, scratch.gradient);
      for (int64_t n = 0; n < points.placed.count; ++n) {
        scatter_point<Set>(pixels, sums, scratch.gradient, a.channels, points.placed,
                           points.placed.counted[n], scratch.product);
      }
      finish_points<Set>(scratch, anchor, a.softmax);
      narrow_elements<Set::template Vector>(points.triples, 3 * count, gradients.offset_mask,
                                            a.offset_dtype, first_triple);
    }
  }
}

template <class Set>
inline void attn_backward(const AttnCpuArguments& a, const AttnCpuGradients& gradients,
                          int64_t begin, int64_t end, void* scratch) {
  switch (a.value_dtype) {
    case Dtype::kFloat32:
      return attn_backward_range<Set, float>(a, gradients, begin, end, scratch);
    case Dtype::kFloat16:
      return attn_backward_range<Set, Half>(a, gradients, begin, end, scratch);
    case Dtype::kBFloat16:
      return attn_backward_range<Set, BFloat16>(a, gradients, begin, end, scratch);
    case Dtype::kFloat64:
      return attn_backward_range<Set, double>(a, gradients, begin, end, scratch);
  }
}

}  // namespace
}  // namespace deform::kernels
