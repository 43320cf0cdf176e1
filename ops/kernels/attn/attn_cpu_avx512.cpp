#include "attn/attn_cpu_kernel.h"
#include "common/triples_avx512.h"
#include "common/vector_avx512.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx512::Vector<T>;
  template <class R>
  using Lanes = avx512::Lanes<R>;
  template <class R>
  using Triples = avx512::Triples<R>;
};

}  // namespace

void attn_cpu_avx512(const AttnCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                     void* scratch) {
  attn<Set>(arguments, output, begin, end, scratch);
}

}  // namespace deform::kernels
