// The `jit` backend's kernels in this process: each is found or compiled once, for each compute
// capability, and loaded once.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/cuda_launch.h"
#include "jit/kernel_store.h"

namespace deform::ops {

// Keys, origins ("cache", "index" or "compiled") and machine code, as bytes.
using KernelList =
    std::tuple<std::vector<std::string>, std::vector<std::string>, std::vector<at::Tensor>>;

// Why the backend can run nothing here; empty where it can. Throws c10::Error on a variable that
// has a value it can't have.
std::string jit_missing();

// Kernels for launches on a CUDA device. Threads may ask for the same at the same time. find()
// throws what KernelStore::find does, and c10::Error where CUDA can't load a kernel.
kernels::RunTimeKernels& jit_kernels(c10::Device device);

// Launches nothing: remembers what a launcher asks for, so that it is ready before a first call, or
// can be packed where there is no GPU.
class WantedKernels : public kernels::RunTimeKernels {
 public:
  // For compute capability `sm` / 10, whether or not there is such a GPU. Throws c10::Error where
  // that can't be one.
  explicit WantedKernels(int64_t sm, int64_t multiprocessors = 1);

  kernels::CudaLaunch launch() { return {-1, nullptr, gpu_, this}; }
  const void* find(const kernels::KernelRequest& request) override;

  KernelList list() const;

 private:
  const kernels::Gpu gpu_;
  std::vector<const FoundKernel*> found_;
};

// Throw c10::Error, which names the argument, unless all sizes are at least 1, and all types those
// that operators take.
void check_kernel_sizes(const char* op,
                        std::initializer_list<std::pair<const char*, int64_t>> sizes);
void check_kernel_dtypes(const char* op,
                         std::initializer_list<std::pair<const char*, at::ScalarType>> dtypes);

}  // namespace deform::ops
