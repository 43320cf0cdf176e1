#include "common/lanes_avx2.h"
#include "common/vector_avx2.h"
#include "msda/msda_cpu_kernel.h"

namespace deform::kernels {

void msda_cpu_avx2(const MsdaCpuArguments& arguments, int64_t begin, int64_t end, void* scratch) {
  msda<avx2::Vector, avx2::Lanes>(arguments, begin, end, scratch);
}

}  // namespace deform::kernels
