#include "attn/attn_backward_cpu_kernel.h"
#include "common/lane_sums_avx2.h"
#include "common/triples_avx2.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx2::Vector<T>;
  template <class R>
  using Lanes = avx2::Lanes<R>;
  template <class R>
  using Triples = avx2::Triples<R>;
  template <class Vector, class R>
  using LaneSums = avx2::LaneSums<Vector, R>;
};

}  // namespace

void attn_backward_cpu_avx2(const AttnCpuArguments& arguments, const AttnCpuGradients& gradients,
                            int64_t begin, int64_t end, void* scratch) {
  attn_backward<Set>(arguments, gradients, begin, end, scratch);
}

}  // namespace deform::kernels
