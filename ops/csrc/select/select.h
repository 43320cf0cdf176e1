// The backend that a call to a public operator takes in this process.
#pragma once

#include <ATen/core/Tensor.h>

#include "select/policy.h"

namespace deform::ops {

// The chosen backend for operands like `value`, after it was counted and, once for each reason,
// warned of if it isn't the first choice. Throws c10::NotImplementedError, which lists each
// candidate, where none can run. Cheap enough for every call.
Backend select_backend(Op op, const at::Tensor& value, int64_t channels, int64_t levels,
                       int64_t points, bool training);

// Whether the gradient of `value` is summed in its own type on its CUDA device.
bool sums_in_own_type(const at::Tensor& value, bool fp32acc);

// What resolve() takes for granted in this process. Thread-safe.
Capabilities process_capabilities();

}  // namespace deform::ops
