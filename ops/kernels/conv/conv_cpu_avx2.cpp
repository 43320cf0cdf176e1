#include "common/lane_sums_avx2.h"
#include "common/vector_avx2.h"
#include "conv/conv_cpu_kernel.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx2::Vector<T>;
  template <class Vector, class R>
  using LaneSums = avx2::LaneSums<Vector, R>;
};

}  // namespace

void conv_sample_cpu_avx2(const ConvCpuArguments& a, int64_t first, int64_t count, int64_t begin,
                          int64_t end, void* columns) {
  with_value_type(a, [&](auto type) {
    sample_range<Set, decltype(type)>(a, first, count, begin, end, columns);
  });
}

void conv_points_cpu_avx2(const ConvCpuArguments& a, int64_t first, int64_t count, int64_t begin,
                          int64_t end, const void* by_columns, void* by_offset, void* by_mask) {
  with_value_type(a, [&](auto type) {
    points_range<Set, decltype(type)>(a, first, count, begin, end, by_columns, by_offset, by_mask);
  });
}

void conv_scatter_cpu_avx2(const ConvCpuArguments& a, int64_t first, int64_t count, int64_t begin,
                           int64_t end, const void* by_columns, void* by_value) {
  with_value_type(a, [&](auto type) {
    scatter_range<Set, decltype(type)>(a, first, count, begin, end, by_columns, by_value);
  });
}

}  // namespace deform::kernels
