#include "common/lanes_avx512.h"
#include "common/vector_avx512.h"
#include "msda/msda_cpu_kernel.h"

namespace deform::kernels {

void msda_cpu_avx512(const MsdaCpuArguments& arguments, int64_t begin, int64_t end, void* scratch) {
  msda<avx512::Vector, avx512::Lanes>(arguments, begin, end, scratch);
}

}  // namespace deform::kernels
