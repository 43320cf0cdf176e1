#include "conv/conv.h"

#include <ATen/ops/empty.h>

#include "conv/operands.h"

namespace deform::ops {

at::Tensor conv_meta(const at::Tensor& value, const at::Tensor& offset,
                     const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  check_conv_operands(value, offset, mask, weight, bias, geometry);
  return at::empty_symint(
      {value.sym_size(0), offset.sym_size(1), offset.sym_size(2), weight.sym_size(0)},
      value.options());
}

ConvGradients conv_backward_meta(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 const ConvGeometry& geometry) {
  check_conv_operands(grad_output, value, offset, mask, weight, bias, geometry);
  const auto like = [](const at::Tensor& tensor) {
    return at::empty_symint(tensor.sym_sizes(), tensor.options());
  };
  const auto like_if = [&](const std::optional<at::Tensor>& tensor) {
    return tensor ? like(*tensor) : at::empty({0}, value.options());
  };
  return {like(value), like(offset), like_if(mask), like(weight), like_if(bias)};
}

}  // namespace deform::ops
