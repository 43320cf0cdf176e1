#include "common/lane_sums_plain.h"
#include "msda/msda_backward_cpu_kernel.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = plain::Vector<T>;
  template <class R>
  using Lanes = plain::Lanes<R>;
  template <class Vector, class R>
  using LaneSums = plain::LaneSums<Vector, R>;
};

}  // namespace

size_t msda_backward_cpu_scratch_bytes(const MsdaCpuArguments& arguments, bool pack_heads) {
  if (arguments.value_dtype == Dtype::kFloat64) {
    return static_cast<size_t>(
        MsdaBackwardScratch<double>(nullptr, arguments, pack_heads).carver.bytes());
  }
  return static_cast<size_t>(
      MsdaBackwardScratch<float>(nullptr, arguments, pack_heads).carver.bytes());
}

void msda_backward_cpu_plain(const MsdaCpuArguments& arguments, const MsdaCpuGradients& gradients,
                             int64_t begin, int64_t end, void* scratch) {
  msda_backward<Set>(arguments, gradients, begin, end, scratch);
}

}  // namespace deform::kernels
