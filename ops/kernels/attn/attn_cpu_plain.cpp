#include "attn/attn_cpu_kernel.h"
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
};

}  // namespace

size_t attn_cpu_scratch_bytes(const AttnCpuArguments& arguments) {
  const AttnScratch<plain::Lanes<double>> scratch(nullptr, arguments);
  return static_cast<size_t>(scratch.carver.bytes());
}

void attn_cpu_plain(const AttnCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                    void* scratch) {
  attn<Set>(arguments, output, begin, end, scratch);
}

}  // namespace deform::kernels
