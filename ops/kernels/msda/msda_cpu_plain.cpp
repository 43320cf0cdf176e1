#include "msda/msda_cpu_kernel.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = plain::Vector<T>;
  template <class R>
  using Lanes = plain::Lanes<R>;
};

}  // namespace

size_t msda_cpu_scratch_bytes(const MsdaCpuArguments& arguments) {
  if (arguments.value_dtype == Dtype::kFloat64) {
    return static_cast<size_t>(MsdaScratch<double>(nullptr, arguments).carver.bytes());
  }
  return static_cast<size_t>(MsdaScratch<float>(nullptr, arguments).carver.bytes());
}

void msda_cpu_plain(const MsdaCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                    void* scratch) {
  msda<Set>(arguments, output, begin, end, scratch);
}

}  // namespace deform::kernels
