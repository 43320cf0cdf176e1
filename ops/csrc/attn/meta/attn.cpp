#include <ATen/ops/empty.h>

#include "attn/attn.h"
#include "attn/operands.h"

namespace deform::ops {

at::Tensor attn_meta(const at::Tensor& value, const at::Tensor& offset_mask,
                     const AttnParameters& parameters) {
  check_attn_operands(value, offset_mask, parameters);
  return at::empty_symint(
      {value.sym_size(0), offset_mask.sym_size(1), offset_mask.sym_size(2), value.sym_size(3)},
      value.options());
}

AttnGradients attn_backward_meta(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset_mask, const AttnParameters& parameters) {
  check_attn_operands(grad_output, value, offset_mask, parameters);
  return {at::empty_symint(value.sym_sizes(), value.options()),
          at::empty_symint(offset_mask.sym_sizes(), offset_mask.options())};
}

}  // namespace deform::ops
