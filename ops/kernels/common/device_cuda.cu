#include "common/device_cuda.h"

#include <cuda_runtime.h>

#include <mutex>

namespace deform::kernels {
namespace {

Gpu ask(int index) {
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    if (cudaDeviceGetAttribute(&value, which, index) == cudaSuccess) return value;
    cudaGetLastError();  // leave no error behind for a launch check to find
    return 0;
  };
  return {10 * attribute(cudaDevAttrComputeCapabilityMajor) +
              attribute(cudaDevAttrComputeCapabilityMinor),
          attribute(cudaDevAttrMultiProcessorCount),
          static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))};
}

}  // namespace

Gpu gpu_at(int index) {
  constexpr int kRemembered = 64;
  static Gpu known[kRemembered];
  static std::once_flag asked[kRemembered];
  if (index < 0) return {};
  if (index >= kRemembered) return ask(index);
  std::call_once(asked[index], [&] { known[index] = ask(index); });
  return known[index];
}

}  // namespace deform::kernels
