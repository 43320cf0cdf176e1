#pragma once

#include <string>

#include "absl/status/status.h"

namespace deform::engine {

// The little that is asked of NVIDIA's driver, which is opened when first asked: this program
// links no CUDA library, and runs where there is none. Thread-safe.

// Number of GPUs that this process sees (CUDA_VISIBLE_DEVICES counts); 0 without a driver.
int CudaDeviceCount();

// Compute capability of GPU `index` as "90"; empty when there is no such GPU.
std::string ComputeCapability(int index);

// Opens torch's CUDA half for the whole process. FAILED_PRECONDITION when it can't be opened.
absl::Status OpenTorchCuda();

}  // namespace deform::engine
