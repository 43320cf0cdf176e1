#include "attn/attn_backward_cpu_kernel.h"
#include "common/lane_sums_avx512.h"
#include "common/triples_avx512.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx512::Vector<T>;
  template <class R>
  using Lanes = avx512::Lanes<R>;
  template <class R>
  using Triples = avx512::Triples<R>;
  template <class Vector, class R>
  using LaneSums = avx512::LaneSums<Vector, R>;
};

}  // namespace

void attn_backward_cpu_avx512(const AttnCpuArguments& arguments, const AttnCpuGradients& gradients,
                              int64_t begin, int64_t end, void* scratch) {
  attn_backward<Set>(arguments, gradients, begin, end, scratch);
}

}  // namespace deform::kernels
