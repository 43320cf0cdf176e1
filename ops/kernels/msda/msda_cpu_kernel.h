// The forward CPU kernel, written once and compiled for each instruction set by
// msda_cpu_<set>.cpp. Linkage: see common/vector_plain.h.
#pragma once

#include "msda/msda_cpu_points.h"

namespace deform::kernels {
namespace {

// Queries and heads whose points are placed before any pixel is read: the steps of one softmax wait
// for each other, but not for another's.
constexpr int64_t kBlock = 8;

template <class R>
struct MsdaScratch {
  Carver carver;
  int64_t padded;
  PointLevels<R> levels;
  PlacedPoints<R> placed[kBlock];
  R* weights;    // of each in a block
  R* locations;  // of one

  MsdaScratch(void* block, const MsdaCpuArguments& a)
      : carver(block), padded(padded_to_lanes(a.levels * a.points)), levels(carver, padded) {
    for (auto& points : placed) take_placed(carver, padded, points);
    weights = carver.take<R>(kBlock * padded);
    locations = carver.take<R>(2 * padded);
  }
};

// Queries [begin, end), all heads of one before the next.
template <class Set, class T>
inline void msda_queries(const MsdaCpuArguments& a, T* output, int64_t begin, int64_t end,
                         MsdaScratch<Real<T>>& s) {
  const int64_t row_stride = a.heads * a.channels;
  for (int64_t first = begin * a.heads; first < end * a.heads; first += kBlock) {
    const int64_t count = smaller(kBlock, end * a.heads - first);
    for (int64_t i = 0; i < count; ++i) {
      read_weights<Set>(a, s.levels, first + i, s.padded, s.weights + i * s.padded);
    }
    for (int64_t i = 0; i < count; ++i) {
      place_points<Set, false>(a, s.levels, first + i, s.padded, s.weights + i * s.padded,
                               row_stride, s.locations, s.placed[i]);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t batch = (first + i) / (a.heads * a.queries), head = (first + i) % a.heads;
      const T* image =
          static_cast<const T*>(a.value) + batch * a.rows * row_stride + head * a.channels;
      gather_channels<typename Set::template Vector<T>, kMostLanes>(
          image, a.channels, s.placed[i], output + (first + i) * a.channels);
    }
  }
}

template <class Set, class T>
inline void msda_as(const MsdaCpuArguments& a, void* output, int64_t begin, int64_t end,
                    void* block) {
  MsdaScratch<Real<T>> scratch(block, a);
  scratch.levels.spread(a, scratch.padded);
  msda_queries<Set>(a, static_cast<T*>(output), begin, end, scratch);
}

template <class Set>
inline void msda(const MsdaCpuArguments& a, void* output, int64_t begin, int64_t end,
                 void* scratch) {
  switch (a.value_dtype) {
    case Dtype::kFloat32:
      return msda_as<Set, float>(a, output, begin, end, scratch);
    case Dtype::kFloat16:
      return msda_as<Set, Half>(a, output, begin, end, scratch);
    case Dtype::kBFloat16:
      return msda_as<Set, BFloat16>(a, output, begin, end, scratch);
    case Dtype::kFloat64:
      return msda_as<Set, double>(a, output, begin, end, scratch);
  }
}

}  // namespace
}  // namespace deform::kernels
