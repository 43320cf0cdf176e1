#include "attn/attn_cpu_kernel.h"
#include "common/triples_avx2.h"
#include "common/vector_avx2.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx2::Vector<T>;
  template <class R>
  using Lanes = avx2::Lanes<R>;
  template <class R>
  using Triples = avx2::Triples<R>;
};

}  // namespace

void attn_cpu_avx2(const AttnCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                   void* scratch) {
  attn<Set>(arguments, output, begin, end, scratch);
}

}  // namespace deform::kernels
