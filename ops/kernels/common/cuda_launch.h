// Where a kernel is launched, and where it comes from. No torch, no CUDA headers.
#pragma once

#include <cstdint>
#include <vector>

#include "common/device_cuda.h"

struct CUstream_st;

namespace deform::kernels {

// A macro of device code that is compiled at run time, and the number that it stands for.
struct KernelConstant {
  const char* macro;
  int64_t value;
};

// A kernel to be had at run time: the extern "C" __global__ function `entry` of `file`, a path
// below kernels/. Names are literals.
struct KernelRequest {
  const char* file;
  const char* entry;
  std::vector<KernelConstant> constants;
};

// Kernels that are compiled apart from this library.
class RunTimeKernels {
 public:
  virtual ~RunTimeKernels() = default;

  // A cudaKernel_t for the device that the launch is on; null: the launch is left out. May throw.
  virtual const void* find(const KernelRequest& request) = 0;
};

struct CudaLaunch {
  int device;  // has to be the calling thread's current one
  CUstream_st* stream;
  Gpu gpu;                   // what the device is
  RunTimeKernels* run_time;  // null: the kernels that are compiled into this library
};

}  // namespace deform::kernels
