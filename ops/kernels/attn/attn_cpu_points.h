// The points of single-scale deformable sampling in lanes, for the CPU kernels of both directions.
// An instruction set `Set` has templates Vector, Lanes and Triples, and LaneSums where a kernel
// says so. Linkage: see common/vector_plain.h.
#pragma once

#include "attn/attn_cpu.h"
#include "common/bilinear.h"
#include "common/element_rows.h"

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

// `padded` points in a row: those of one group or of several. Arrays are written by whole vectors,
// up to kMostLanes - 1 elements past the last point.
template <class R>
struct PointScratch {
  R* triples;           // dx, dy, weight of each point
  R *grid_x, *grid_y;   // minus the undisturbed place, less the output's; infinite past the points
  R *logits, *weights;  // of each point
  PlacedPoints<R> placed;

  PointScratch(Carver& carver, int64_t padded) {
    for (auto& offset : placed.offset) offset = carver.take<int64_t>(padded);
    for (auto& weight : placed.weight) weight = carver.take<R>(padded);
    placed.counted = carver.take<int32_t>(2 * padded);  // Lanes::append writes whole vectors
    placed.count = 0;
    triples = carver.take<R>(3 * padded + kMostLanes);
    grid_x = carver.take<R>(padded);
    grid_y = carver.take<R>(padded);
    logits = carver.take<R>(padded + kMostLanes);
    weights = carver.take<R>(padded + kMostLanes);
  }

  // Fills grid_x and grid_y for `groups` groups.
  void lay_grid(const AttnGrid& grid, int64_t groups, int64_t padded) {
    for (int64_t p = 0; p < padded; ++p) {
      const int64_t k = p % grid.points;
      const int64_t point = k + (k >= grid.dropped ? 1 : 0);
      const bool exists = p < groups * grid.points;
      const auto infinity = static_cast<R>(__builtin_inff());
      const auto column = static_cast<double>(point / grid.kernel_h);
      const auto row = static_cast<double>(point % grid.kernel_h);
      grid_x[p] = exists ? static_cast<R>(-column * grid.step_x) : infinity;
      grid_y[p] = exists ? static_cast<R>(-row * grid.step_y) : infinity;
    }
  }
};

// Where output (oy, ox) itself is, and the map as lanes want it.
template <class Lanes>
struct Anchor {
  typename Lanes::Floats x, y, spread;
  MapOfLane<Lanes> map;

  explicit Anchor(const AttnCpuArguments& a) {
    using R = typename Lanes::Real;
    spread = Lanes::fill(static_cast<R>(a.grid.spread));
    map = {Lanes::fill(static_cast<R>(a.width)), Lanes::fill(static_cast<R>(a.height)),
           Lanes::fill_ints(static_cast<int32_t>(a.width)),
           Lanes::fill_ints(static_cast<int32_t>(a.height)), Lanes::fill_ints(0)};
  }
  void move_to(const AttnGrid& grid, int64_t oy, int64_t ox) {
    using R = typename Lanes::Real;
    x = Lanes::fill(static_cast<R>(static_cast<double>(ox * grid.stride_w) + grid.start_x));
    y = Lanes::fill(static_cast<R>(static_cast<double>(oy * grid.stride_h) + grid.start_y));
  }
  // Of a point with offset `d` on one axis.
  typename Lanes::Floats place(typename Lanes::Floats d, typename Lanes::Floats at,
                               const typename Lanes::Real* grid) const {
    return Lanes::multiply_subtract(d, spread, Lanes::subtract(Lanes::load(grid), at));
  }
};

// The softmax of one group's points. Reads and writes whole vectors, past the last point too.
template <class Lanes>
class Softmax {
 public:
  using R = typename Lanes::Real;

  Softmax(Carver& carver, int64_t points) : points_(points) {
    const int64_t padded = padded_to_lanes(points);
    number_ = carver.take<int32_t>(padded);
    padding_ = carver.take<R>(padded);
  }
  void prepare() {
    for (int64_t p = 0; p < padded_to_lanes(points_); ++p) {
      number_[p] = static_cast<int32_t>(p);
      padding_[p] = p < points_ ? R(0) : -static_cast<R>(__builtin_inff());
    }
  }

  void operator()(const R* logits, R* weights) const {
    constexpr int64_t kWidth = Lanes::kWidth;
    const auto count = Lanes::fill_ints(static_cast<int32_t>(points_));
    // What lies past the last point may be anything: it becomes 0, then minus infinity.
    const auto logit = [&](int64_t p) {
      const auto exists = Lanes::less(Lanes::load_ints(number_ + p), count);
      return Lanes::add(Lanes::keep(exists, Lanes::load(logits + p)), Lanes::load(padding_ + p));
    };
    auto most = logit(0);
    for (int64_t p = kWidth; p < points_; p += kWidth) most = Lanes::larger(most, logit(p));
    const auto largest = Lanes::fill(Lanes::largest(most));
    auto total = Lanes::fill(R(0));
    for (int64_t p = 0; p < points_; p += kWidth) {
      const auto e = Lanes::exp(Lanes::subtract(logit(p), largest));
      total = Lanes::add(total, e);
      Lanes::store(weights + p, e);
    }
    const auto share = Lanes::fill(R(1) / Lanes::sum(total));
    for (int64_t p = 0; p < points_; p += kWidth) {
      Lanes::store(weights + p, Lanes::multiply(Lanes::load(weights + p), share));
    }
  }

 private:
  int64_t points_;
  int32_t* number_;
  R* padding_;
};

}  // namespace
}  // namespace deform::kernels
