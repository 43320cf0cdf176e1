// Checks of the operands of single-scale deformable sampling. What they are: attn.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include "attn/attn.h"
#include "attn/attn_grid.h"

namespace deform::ops {

// Throws unless parameters, ranks, sizes, types and devices fit together, naming the operand, what
// it is and what it should be. Sizes may be symbolic; contents aren't read.
void check_attn_operands(const at::Tensor& value, const at::Tensor& offset_mask,
                         const AttnParameters& parameters);
// The same, and that grad_output is like the result.
void check_attn_operands(const at::Tensor& grad_output, const at::Tensor& value,
                         const at::Tensor& offset_mask, const AttnParameters& parameters);

// Throws if a size is beyond what the kernels' index arithmetic holds.
void check_attn_limits(const at::Tensor& value, const AttnParameters& parameters);

// Where the points of output (0, 0) stand. REQUIRES: checked parameters.
kernels::AttnGrid attn_grid(const AttnParameters& parameters);

}  // namespace deform::ops
