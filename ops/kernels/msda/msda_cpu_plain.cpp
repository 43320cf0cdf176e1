#include "msda/msda_cpu_kernel.h"

namespace deform::kernels {

size_t msda_cpu_scratch_bytes(int64_t heads, int64_t levels, int64_t points) {
  return static_cast<size_t>(Scratch<double>::bytes(padded_points(levels, points), heads));
}

void msda_cpu_plain(const MsdaCpuArguments& arguments, int64_t begin, int64_t end, void* scratch) {
  msda<plain::Vector, plain::Lanes>(arguments, begin, end, scratch);
}

}  // namespace deform::kernels
