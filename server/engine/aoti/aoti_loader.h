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
// machine without a GPU needs no CUDA library. FAILED_PRECONDITION when the op library can't be
// opened.
absl::StatusOr<std::unique_ptr<ModelLoader>> MakeAotiLoader(AotiLoaderOptions options);

// True when a CUDA GPU can be used by this process (opens the CUDA libraries to find out).
bool CudaAvailable();

// torch's version, "2.11.0".
std::string TorchVersion();

}  // namespace deform::engine
