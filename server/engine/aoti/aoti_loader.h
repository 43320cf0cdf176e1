#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model_loader.h"

namespace deform::engine {

struct AotiLoaderOptions {
  // Path of libdeform_ops.so, opened before any package. Empty: not opened.
  std::string op_library;
};

// The loader of AOTInductor `.pt2` artifacts; this folder alone includes torch's loader. Opens the
// op library once, and libtorch_cuda.so the first time a CUDA device is asked for, so that a
// machine without a GPU needs no CUDA library. torch looks for its CUDA half once: where both
// devices serve, load for the GPU first. FAILED_PRECONDITION when the op library can't be opened.
absl::StatusOr<std::unique_ptr<ModelLoader>> MakeAotiLoader(AotiLoaderOptions options);

// Sets how many threads one run on the CPU may use, in whatever thread it runs; the runs of all
// models share the setting. REQUIRES: threads >= 1. Before it is called: as many as there are
// CPUs, or OMP_NUM_THREADS.
void SetIntraOpThreads(int threads);

// True when a CUDA GPU can be used by this process; asks the driver and opens no other library.
bool CudaAvailable();

// torch's version, "2.11.0".
std::string TorchVersion();

}  // namespace deform::engine
