// Masking that keeps NaN and infinity out: a product with 0 would not.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/where.h>

namespace deform::ops {

inline at::Tensor zero_unless(const at::Tensor& condition, const at::Tensor& tensor) {
  return at::where(condition, tensor, at::Scalar(0));
}

}  // namespace deform::ops
