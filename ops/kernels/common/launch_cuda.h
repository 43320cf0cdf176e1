// How launchers start a kernel. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "common/cuda_launch.h"
#include "common/elements_cuda.cuh"

namespace deform::kernels::cuda {

struct Grid {
  dim3 blocks;
  unsigned threads;
  size_t shared_bytes;  // dynamic
};

// Starts `compiled`, or where `where` says so the kernel that request() asks for, which takes the
// same parameters. Returns null, or what CUDA said of a launch that failed.
template <class Request, class... Parameters>
const char* launch(const CudaLaunch& where, void (*compiled)(Parameters...), Request request,
                   const Grid& grid, std::common_type_t<Parameters>... arguments) {
  const void* kernel = reinterpret_cast<const void*>(compiled);
  if (where.run_time != nullptr) {
    kernel = where.run_time->find(request());
    if (kernel == nullptr) return nullptr;
  }
  // This library has a CUDA runtime of its own, whose idea of the current device may be an older
  // one.
  cudaError_t result = cudaSetDevice(where.device);
  // A block has more than this only where that is asked for.
  constexpr size_t kAlwaysThere = 48 * 1024;
  if (result == cudaSuccess && grid.shared_bytes > kAlwaysThere) {
    result = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(grid.shared_bytes));
  }
  if (result == cudaSuccess) {
    void* pointers[] = {&arguments...};
    result = cudaLaunchKernel(kernel, grid.blocks, dim3(grid.threads), pointers, grid.shared_bytes,
                              where.stream);
    cudaGetLastError();  // it is reported once, here
  }
  return result == cudaSuccess ? nullptr : cudaGetErrorString(result);
}

// What `visit` returns for a value of dtype's element type.
template <class Visit>
auto visit_element(Dtype dtype, Visit visit) {
  switch (dtype) {
    case Dtype::kFloat16:
      return visit(Element<Dtype::kFloat16>());
    case Dtype::kBFloat16:
      return visit(Element<Dtype::kBFloat16>());
    case Dtype::kFloat64:
      return visit(Element<Dtype::kFloat64>());
    default:
      return visit(Element<Dtype::kFloat32>());
  }
}

}  // namespace deform::kernels::cuda
