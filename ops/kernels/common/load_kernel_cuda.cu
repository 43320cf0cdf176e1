#include "common/load_kernel_cuda.h"

#include <cuda_runtime.h>

namespace deform::kernels {

LoadedKernel load_kernel(const std::string& cubin, const char* entry) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  cudaError_t result =
      cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (result == cudaSuccess) result = cudaLibraryGetKernel(&kernel, library, entry);
  if (result == cudaSuccess) return {kernel, nullptr};
  cudaGetLastError();  // it is reported once, here
  if (library != nullptr) cudaLibraryUnload(library);
  return {nullptr, cudaGetErrorString(result)};
}

}  // namespace deform::kernels
