// The element types that every operator takes, and their names for kernels.
#pragma once

#include <c10/core/ScalarType.h>

#include "common/dtype.h"

namespace deform::ops {

inline bool is_supported(c10::ScalarType type) {
  return type == c10::ScalarType::Float || type == c10::ScalarType::Half ||
         type == c10::ScalarType::BFloat16 || type == c10::ScalarType::Double;
}

inline constexpr const char* kSupportedDtypes = "float32, float16, bfloat16 or float64";

// REQUIRES: is_supported(type).
inline kernels::Dtype kernel_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Half:
      return kernels::Dtype::kFloat16;
    case c10::ScalarType::BFloat16:
      return kernels::Dtype::kBFloat16;
    case c10::ScalarType::Double:
      return kernels::Dtype::kFloat64;
    default:
      return kernels::Dtype::kFloat32;
  }
}

// What coordinates and sums are computed in: float64 for float64, else float32.
inline c10::ScalarType compute_dtype(c10::ScalarType value_type) {
  return value_type == c10::ScalarType::Double ? c10::ScalarType::Double : c10::ScalarType::Float;
}

}  // namespace deform::ops
