// The CPU kernels of both directions, written once and compiled for each instruction set by
// conv_cpu_<set>.cpp. A `Set` has templates Vector and LaneSums. Linkage: see
// common/vector_plain.h.
#pragma once

#include "common/element_rows.h"
#include "conv/conv_cpu.h"

namespace deform::kernels {
namespace {

inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

template <class R>
inline R element_at(const void* array, Dtype dtype, int64_t i) {
  switch (dtype) {
    case Dtype::kFloat16:
      return static_cast<R>(widen(static_cast<const Half*>(array)[i]));
    case Dtype::kBFloat16:
      return static_cast<R>(widen(static_cast<const BFloat16*>(array)[i]));
    case Dtype::kFloat64:
      return static_cast<R>(static_cast<const double*>(array)[i]);
    default:
      return static_cast<R>(static_cast<const float*>(array)[i]);
  }
}

template <class R>
inline void set_element(void* array, Dtype dtype, int64_t i, R x) {
  switch (dtype) {
    case Dtype::kFloat16:
      static_cast<Half*>(array)[i] = narrow<Half>(static_cast<float>(x));
      break;
    case Dtype::kBFloat16:
      static_cast<BFloat16*>(array)[i] = narrow<BFloat16>(static_cast<float>(x));
      break;
    case Dtype::kFloat64:
      static_cast<double*>(array)[i] = static_cast<double>(x);
      break;
    default:
      static_cast<float*>(array)[i] = static_cast<float>(x);
  }
}

template <class R>
inline R floor_of(R x) {
  if constexpr (sizeof(R) == sizeof(float)) {
    return __builtin_floorf(x);
  } else {
    return __builtin_floor(x);
  }
}

// A point's place: the elements of its corners' first channel, counted from its picture, and their
// shares. A corner past the border is its neighbour within, with a share of 0.
template <class R>
struct ConvPoint {
  bool counts;
  R mask;
  R to_right, to_bottom;
  R share[4];  // top left, top right, bottom left, bottom right
  bool within[4];
  int64_t element[4];
};

// The points of output `output`, counted over the batch.
template <class R>
class ConvOutput {
 public:
  ConvOutput(const ConvCpuArguments& a, int64_t output) : a_(a), output_(output) {
    const int64_t ox = output % a.out_width, oy = output / a.out_width % a.out_height;
    x_ = ox * a.stride_w - a.pad_w;
    y_ = oy * a.stride_h - a.pad_h;
  }

  int64_t number(int64_t offset_group, int64_t k) const {
    return (output_ * a_.offset_groups + offset_group) * a_.kernel_h * a_.kernel_w + k;
  }
  int64_t picture() const { return output_ / (a_.out_width * a_.out_height); }

  ConvPoint<R> point(int64_t offset_group, int64_t k) const {
    const int64_t i = number(offset_group, k);
    const R y = static_cast<R>(y_ + k / a_.kernel_w * a_.dilation_h) +
                element_at<R>(a_.offset, a_.offset_dtype, 2 * i);
    const R x = static_cast<R>(x_ + k % a_.kernel_w * a_.dilation_w) +
                element_at<R>(a_.offset, a_.offset_dtype, 2 * i + 1);
    ConvPoint<R> p;
    p.counts =
        x > R(-1) && x < static_cast<R>(a_.width) && y > R(-1) && y < static_cast<R>(a_.height);
    if (!p.counts) return p;
    p.mask = a_.mask == nullptr ? R(1) : element_at<R>(a_.mask, a_.mask_dtype, i);
    const R left = floor_of(x), top = floor_of(y);
    const auto x0 = static_cast<int64_t>(left), y0 = static_cast<int64_t>(top);
    p.to_right = x - left;
    p.to_bottom = y - top;
    const bool inside_x[2] = {x0 >= 0, x0 + 1 < a_.width};
    const bool inside_y[2] = {y0 >= 0, y0 + 1 < a_.height};
    const R share_x[2] = {R(1) - p.to_right, p.to_right};
    const R share_y[2] = {R(1) - p.to_bottom, p.to_bottom};
    const int64_t column[2] = {larger(x0, 0), smaller(x0 + 1, a_.width - 1)};
    const int64_t line[2] = {larger(y0, 0), smaller(y0 + 1, a_.height - 1)};
    for (int c = 0; c < 4; ++c) {
      p.within[c] = inside_x[c % 2] && inside_y[c / 2];
      p.share[c] = p.within[c] ? share_x[c % 2] * share_y[c / 2] : R(0);
      p.element[c] = (line[c / 2] * a_.width + column[c % 2]) * a_.channels;
    }
    return p;
  }

 private:
  const ConvCpuArguments& a_;
  const int64_t output_;
  int64_t x_, y_;
};

// Calls visit(offset_group, begin, end, group) for each run of channels of one group and one offset
// group in [first, last).
template <class Visit>
inline void for_each_run(const ConvCpuArguments& a, int64_t first, int64_t last, Visit visit) {
  const int64_t of_group = a.channels / a.groups, of_offsets = a.channels / a.offset_groups;
  for (int64_t begin = first; begin < last;) {
    const int64_t group = begin / of_group, offset_group = begin / of_offsets;
    const int64_t end =
        smaller(last, smaller((group + 1) * of_group, (offset_group + 1) * of_offsets));
    visit(offset_group, begin, end, group);
    begin = end;
  }
}

// Element of channel `channel` of point k of output `o` of a tile, in its columns.
inline int64_t column_element(const ConvCpuArguments& a, int64_t count, int64_t o, int64_t k,
                              int64_t group, int64_t channel) {
  const int64_t of_group = a.channels / a.groups;
  return ((group * count + o) * a.kernel_h * a.kernel_w + k) * of_group + channel -
         group * of_group;
}

// to[i] = sum over corners of weight * from[corner][i].
template <class Set, class T>
inline void blend(const T* const (&from)[4], const Real<T> (&weight)[4], int64_t count,
                  Real<T>* to) {
  using Wide = typename Set::template Vector<Real<T>>;
  typename Wide::Register w[4];
  for (int c = 0; c < 4; ++c) w[c] = Wide::fill(weight[c]);
  const auto sum_at = [&](int64_t i, int64_t some) {
    auto sum = Wide::zero();
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const auto pixels = load_wide<Set::template Vector>(from[c] + i, some);
      sum = Wide::multiply_add(w[c], pixels, sum);
    }
    return sum;
  };
  int64_t i = 0;
  for (; count - i >= Wide::kWidth; i += Wide::kWidth) Wide::store(to + i, sum_at(i, 0));
  if (i < count) Wide::store_some(to + i, sum_at(i, count - i), count - i);
}

// product[c] += dot(from[c], gradient).
template <class Set, class T>
inline void dot_corners(const T* const (&from)[4], const Real<T>* gradient, int64_t count,
                        Real<T> (&product)[4]) {
  using R = Real<T>;
  using Wide = typename Set::template Vector<R>;
  typename Wide::Register total[4];
  for (int c = 0; c < 4; ++c) total[c] = Wide::zero();
  int64_t i = 0;
  for (; count - i >= Wide::kWidth; i += Wide::kWidth) {
    const auto g = Wide::load(gradient + i);
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const auto pixels = load_wide<Set::template Vector>(from[c] + i);
      total[c] = Wide::multiply_add(g, pixels, total[c]);
    }
  }
  if (const int64_t some = count - i; some > 0) {
    const auto g = Wide::load_some(gradient + i, some);
    for (int c = 0; c < 4; ++c) {
      const auto pixels = load_wide<Set::template Vector>(from[c] + i, some);
      total[c] = Wide::multiply_add(g, pixels, total[c]);
    }
  }
  R sums[4];
  Set::template LaneSums<Wide, R>::store(total, sums, sums + 1, sums + 2, sums + 3);
  for (int c = 0; c < 4; ++c) product[c] += sums[c];
}

// to[i] += weight * from[i].
template <class Set, class R>
inline void add_scaled(const R* from, R weight, int64_t count, R* to) {
  using Wide = typename Set::template Vector<R>;
  const auto w = Wide::fill(weight);
  int64_t i = 0;
  for (; count - i >= Wide::kWidth; i += Wide::kWidth) {
    Wide::store(to + i, Wide::multiply_add(w, Wide::load(from + i), Wide::load(to + i)));
  }
  if (const int64_t some = count - i; some > 0) {
    const auto sum =
        Wide::multiply_add(w, Wide::load_some(from + i, some), Wide::load_some(to + i, some));
    Wide::store_some(to + i, sum, some);
  }
}

template <class Set, class T>
inline void sample_range(const ConvCpuArguments& a, int64_t first, int64_t count, int64_t begin,
                         int64_t end, void* columns) {
  using R = Real<T>;
  const int64_t points = a.kernel_h * a.kernel_w, of_offsets = a.channels / a.offset_groups;
  R* const to = static_cast<R*>(columns);
  for (int64_t o = begin; o < end; ++o) {
    const ConvOutput<R> output(a, first + o);
    const T* image =
        static_cast<const T*>(a.value) + output.picture() * a.height * a.width * a.channels;
    for (int64_t k = 0; k < points; ++k) {
      for (int64_t og = 0; og < a.offset_groups; ++og) {
        const ConvPoint<R> p = output.point(og, k);
        R weight[4] = {};
        for (int c = 0; p.counts && c < 4; ++c) weight[c] = p.share[c] * p.mask;
        for_each_run(a, og * of_offsets, (og + 1) * of_offsets,
                     [&](int64_t, int64_t from, int64_t until, int64_t group) {
                       R* column = to + column_element(a, count, o, k, group, from);
                       if (!p.counts) {
                         for (int64_t i = 0; i < until - from; ++i) column[i] = R(0);
                         return;
                       }
                       const T* const corner[4] = {
                           image + p.element[0] + from, image + p.element[1] + from,
                           image + p.element[2] + from, image + p.element[3] + from};
                       blend<Set, T>(corner, weight, until - from, column);
                     });
      }
    }
  }
}

template <class Set, class T>
inline void points_range(const ConvCpuArguments& a, int64_t first, int64_t count, int64_t begin,
                         int64_t end, const void* by_columns, void* by_offset, void* by_mask) {
  using R = Real<T>;
  const int64_t points = a.kernel_h * a.kernel_w, of_offsets = a.channels / a.offset_groups;
  const R* const gradient = static_cast<const R*>(by_columns);
  for (int64_t o = begin; o < end; ++o) {
    const ConvOutput<R> output(a, first + o);
    const T* image =
        static_cast<const T*>(a.value) + output.picture() * a.height * a.width * a.channels;
    for (int64_t og = 0; og < a.offset_groups; ++og) {
      for (int64_t k = 0; k < points; ++k) {
        const ConvPoint<R> p = output.point(og, k);
        R by_y = 0, by_x = 0, by_scale = 0;
        if (p.counts) {
          R product[4] = {};
          for_each_run(a, og * of_offsets, (og + 1) * of_offsets,
                       [&](int64_t, int64_t from, int64_t until, int64_t group) {
                         const T* const corner[4] = {
                             image + p.element[0] + from, image + p.element[1] + from,
                             image + p.element[2] + from, image + p.element[3] + from};
                         dot_corners<Set, T>(corner,
                                             gradient + column_element(a, count, o, k, group, from),
                                             until - from, product);
                       });
          for (int c = 0; c < 4; ++c) product[c] = p.within[c] ? product[c] : R(0);
          const R left = R(1) - p.to_right, top = R(1) - p.to_bottom;
          const R upper = left * product[0] + p.to_right * product[1];
          const R lower = left * product[2] + p.to_right * product[3];
          by_scale = top * upper + p.to_bottom * lower;
          by_y = (lower - upper) * p.mask;
          by_x =
              (top * (product[1] - product[0]) + p.to_bottom * (product[3] - product[2])) * p.mask;
        }
        const int64_t i = output.number(og, k);
        set_element(by_offset, a.offset_dtype, 2 * i, by_y);
        set_element(by_offset, a.offset_dtype, 2 * i + 1, by_x);
        if (a.mask != nullptr) set_element(by_mask, a.mask_dtype, i, by_scale);
      }
    }
  }
}

template <class Set, class T>
inline void scatter_range(const ConvCpuArguments& a, int64_t first, int64_t count, int64_t begin,
                          int64_t end, const void* by_columns, void* by_value) {
  using R = Real<T>;
  const int64_t points = a.kernel_h * a.kernel_w;
  const R* const gradient = static_cast<const R*>(by_columns);
  for (int64_t o = 0; o < count; ++o) {
    const ConvOutput<R> output(a, first + o);
    R* image = static_cast<R*>(by_value) + output.picture() * a.height * a.width * a.channels;
    for_each_run(a, begin, end, [&](int64_t og, int64_t from, int64_t until, int64_t group) {
      for (int64_t k = 0; k < points; ++k) {
        const ConvPoint<R> p = output.point(og, k);
        if (!p.counts) continue;
        const R* column = gradient + column_element(a, count, o, k, group, from);
        for (int c = 0; c < 4; ++c) {
          if (!p.within[c]) continue;
          add_scaled<Set>(column, p.share[c] * p.mask, until - from, image + p.element[c] + from);
        }
      }
    });
  }
}

// Calls run.operator()<T>() for value's type.
template <class Run>
inline void with_value_type(const ConvCpuArguments& a, Run run) {
  switch (a.value_dtype) {
    case Dtype::kFloat32:
      return run(float());
    case Dtype::kFloat16:
      return run(Half());
    case Dtype::kBFloat16:
      return run(BFloat16());
    case Dtype::kFloat64:
      return run(double());
  }
}

}  // namespace
}  // namespace deform::kernels
