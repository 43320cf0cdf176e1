// Machine code that was compiled apart from this library. No torch.
#pragma once

#include <string>

namespace deform::kernels {

// A kernel of the process, and of no device in particular: a cudaKernel_t.
struct LoadedKernel {
  const void* kernel;   // null where loading failed
  const char* failure;  // what CUDA said; null where it went well
};

// The extern "C" __global__ function `entry` of `cubin`. It stays loaded until the process ends.
LoadedKernel load_kernel(const std::string& cubin, const char* entry);

}  // namespace deform::kernels
