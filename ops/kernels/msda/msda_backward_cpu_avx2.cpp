#include "common/lane_sums_avx2.h"
#include "common/lanes_avx2.h"
#include "common/vector_avx2.h"
#include "msda/msda_backward_cpu_kernel.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx2::Vector<T>;
  template <class R>
  using Lanes = avx2::Lanes<R>;
  template <class Vector, class R>
  using LaneSums = avx2::LaneSums<Vector, R>;
};

}  // namespace

void msda_backward_cpu_avx2(const MsdaCpuArguments& arguments, const MsdaCpuGradients& gradients,
                            int64_t begin, int64_t end, void* scratch) {
  msda_backward<Set>(arguments, gradients, begin, end, scratch);
}

}  // namespace deform::kernels
