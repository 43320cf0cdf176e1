#include "attn/attn_backward_cpu_kernel.h"
#include "common/lane_sums_plain.h"
#include "common/triples_plain.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = plain::Vector<T>;
  template <class R>
  using Lanes = plain::Lanes<R>;
  template <class R>
  using Triples = plain::Triples<R>;
  template <class Vector, class R>
  using LaneSums = plain::LaneSums<Vector, R>;
};

}  // namespace

size_t attn_backward_cpu_scratch_bytes(const AttnCpuArguments& arguments) {
  const AttnBackwardScratch<plain::Lanes<double>> scratch(nullptr, arguments);
  return static_cast<size_t>(scratch.carver.bytes());
}

void attn_backward_cpu_plain(const AttnCpuArguments& arguments, const AttnCpuGradients& gradients,
                             int64_t begin, int64_t end, void* scratch) {
  attn_backward<Set>(arguments, gradients, begin, end, scratch);
}

}  // namespace deform::kernels
