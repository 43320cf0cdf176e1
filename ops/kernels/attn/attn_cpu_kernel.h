// The forward CPU kernel, written once and compiled for each instruction set by attn_cpu_<set>.cpp.
// Linkage: see common/vector_plain.h.
#pragma once

#include "attn/attn_cpu_points.h"

namespace deform::kernels {
namespace {

// The points of all groups of an output stand in one row, so that lanes are full whatever the
// number of points in a group.
template <class Lanes>
struct AttnScratch {
  using R = typename Lanes::Real;
  Carver carver;
  int64_t padded;
  PointScratch<R> points;
  Softmax<Lanes> softmax;

  AttnScratch(void* block, const AttnCpuArguments& a)
      : carver(block),
        padded(padded_to_lanes(a.groups * a.grid.points)),
        points(carver, padded),
        softmax(carver, a.grid.points) {}
};

template <class Set, class T>
inline void attn_range(const AttnCpuArguments& a, T* output, int64_t begin, int64_t end,
                       void* block) {
  using R = Real<T>;
  using Lanes = typename Set::template Lanes<R>;
  using Floats = typename Lanes::Floats;
  const int64_t count = a.groups * a.grid.points;
  const int64_t row_stride = a.groups * a.channels;
  AttnScratch<Lanes> scratch(block, a);
  const int64_t padded = scratch.padded;
  PointScratch<R>& points = scratch.points;
  points.lay_grid(a.grid, a.groups, padded);
  scratch.softmax.prepare();
  Anchor<Lanes> anchor(a);

  for (int64_t i = begin; i < end; ++i) {
    const int64_t ox = i % a.out_width, oy = i / a.out_width % a.out_height;
    const T* image = static_cast<const T*>(a.value) +
                     i / a.out_width / a.out_height * a.height * a.width * row_stride;
    widen_elements<Set::template Vector>(a.offset_mask, a.offset_dtype, i * a.row_elements,
                                         3 * count, 3 * padded, points.triples);
    if (a.softmax) {
      for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
        Floats dx, dy, logit;
        Set::template Triples<R>::load(points.triples + 3 * p, dx, dy, logit);
        Lanes::store(points.logits + p, logit);
      }
      for (int64_t first = 0; first < count; first += a.grid.points) {
        scratch.softmax(points.logits + first, points.weights + first);
      }
    }
    anchor.move_to(a.grid, oy, ox);
    PlacedPoints<R>& placed = points.placed;
    placed.count = 0;
    for (int64_t p = 0; p < padded; p += Lanes::kWidth) {
      Floats dx, dy, weight;
      Set::template Triples<R>::load(points.triples + 3 * p, dx, dy, weight);
      if (a.softmax) weight = Lanes::load(points.weights + p);
      place<Lanes>(anchor.place(dx, anchor.x, points.grid_x + p),
                   anchor.place(dy, anchor.y, points.grid_y + p), weight, anchor.map, row_stride, p,
                   placed);
    }
    PlacedPoints<R> of_group = placed;
    const int32_t* const last = placed.counted + placed.count;
    for (int64_t group = 0; group < a.groups; ++group) {
      const int32_t* next = of_group.counted;
      while (next < last && *next < (group + 1) * a.grid.points) ++next;
      of_group.count = next - of_group.counted;
      gather_channels<typename Set::template Vector<T>>(
          image + group * a.channels, a.channels, of_group,
          output + i * row_stride + group * a.channels);
      of_group.counted += of_group.count;
    }
  }
}

template <class Set>
inline void attn(const AttnCpuArguments& a, void* output, int64_t begin, int64_t end,
                 void* scratch) {
  switch (a.value_dtype) {
    case Dtype::kFloat32:
      return attn_range<Set>(a, static_cast<float*>(output), begin, end, scratch);
    case Dtype::kFloat16:
      return attn_range<Set>(a, static_cast<Half*>(output), begin, end, scratch);
    case Dtype::kBFloat16:
      return attn_range<Set>(a, static_cast<BFloat16*>(output), begin, end, scratch);
    case Dtype::kFloat64:
      return attn_range<Set>(a, static_cast<double*>(output), begin, end, scratch);
  }
}

}  // namespace
}  // namespace deform::kernels
