#include "common/lanes_avx2.h"
#include "common/vector_avx2.h"
#include "msda/msda_cpu_kernel.h"

namespace deform::kernels {
namespace {

struct Set {
  template <class T>
  using Vector = avx2::Vector<T>;
  template <class R>
  using Lanes = avx2::Lanes<R>;
};

}  // namespace

void msda_cpu_avx2(const MsdaCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                   void* scratch) {
  msda<Set>(arguments, output, begin, end, scratch);
}

}  // namespace deform::kernels
