// Checks of the operands of deformable convolution, and what follows from them. What they are:
// conv.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <optional>

#include "conv/conv.h"

namespace deform::ops {

// Throws unless geometry, ranks, sizes, types and devices fit together, naming the operand, what it
// is and what it should be. Sizes may be symbolic; contents aren't read. With `row0`, offset may
// hold fewer rows than a convolution has, from that row on.
void check_conv_operands(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& geometry,
                         std::optional<int64_t> row0 = std::nullopt);
// The same, and that grad_output is like the result.
void check_conv_operands(const at::Tensor& grad_output, const at::Tensor& value,
                         const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                         const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                         const ConvGeometry& geometry);

// Throws if a size is beyond what the kernels' index arithmetic holds.
void check_conv_limits(const at::Tensor& value, const at::Tensor& weight);

// weight as matrices (groups, K * Cin/groups, Cout/groups) of `type`, contiguous; a row is a
// channel of a point, points first.
at::Tensor conv_weight_matrices(const at::Tensor& weight, int64_t groups, at::ScalarType type);
// The way back: to weight's shape and type.
at::Tensor conv_weight_from_matrices(const at::Tensor& matrices, const at::Tensor& weight);

}  // namespace deform::ops
