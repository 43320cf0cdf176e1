#include "conv/conv.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <type_traits>
#include <vector>

namespace deform::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

const char* prefix(ConvNamespace where) {
  switch (where) {
    case ConvNamespace::kDeform:
      return "deform::";
    case ConvNamespace::kCpu:
      return "deform_cpu::";
    case ConvNamespace::kCuda:
      return "deform_cuda::";
    case ConvNamespace::kJit:
      return "deform_jit::";
    default:
      return "deform_reference::";
  }
}

// Calls the namespace's operator through the dispatcher: conv where Result is a tensor, its
// backward where it is the gradients.
template <ConvNamespace where, class Result, class... Operands>
Result call(const ConvGeometry& g, const Operands&... operands) {
  using Signature = Result(const Operands&..., int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                           int64_t, int64_t);
  static const auto op = [] {
    const char* name = std::is_same_v<Result, ConvGradients> ? "conv_backward" : "conv";
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow((std::string(prefix(where)) + name).c_str(), "")
        .template typed<Signature>();
  }();
  return op.call(operands..., g.stride_h, g.stride_w, g.pad_h, g.pad_w, g.dilation_h, g.dilation_w,
                 g.groups, g.offset_groups);
}

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }
bool has_tangent(const OptionalTensor& tensor) { return tensor && has_tangent(*tensor); }

bool wants_derivative(const at::Tensor& tensor) {
  return (c10::GradMode::is_enabled() && tensor.requires_grad()) || has_tangent(tensor);
}
bool wants_derivative(const OptionalTensor& tensor) { return tensor && wants_derivative(*tensor); }

c10::IValue pack(const ConvGeometry& g) {
  return c10::List<int64_t>({g.stride_h, g.stride_w, g.pad_h, g.pad_w, g.dilation_h, g.dilation_w,
                             g.groups, g.offset_groups});
}

ConvGeometry unpack(const c10::IValue& packed) {
  const std::vector<int64_t> n = packed.toIntVector();
  return {n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]};
}

OptionalTensor if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : std::nullopt;
}

template <ConvNamespace where>
class ConvFunction : public torch::autograd::Function<ConvFunction<where>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value,
                            const at::Tensor& offset, const OptionalTensor& mask,
                            const at::Tensor& weight, const OptionalTensor& bias,
                            const ConvGeometry& geometry) {
    context->save_for_backward(
        {value, offset, mask.value_or(at::Tensor()), weight, bias.value_or(at::Tensor())});
    context->saved_data["geometry"] = pack(geometry);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call<where, at::Tensor>(geometry, value, offset, mask, weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const OptionalTensor mask = if_defined(saved[2]), bias = if_defined(saved[4]);
    auto [by_value, by_offset, by_mask, by_weight, by_bias] =
        call<where, ConvGradients>(unpack(context->saved_data["geometry"]), gradients[0], saved[0],
                                   saved[1], mask, saved[3], bias);
    return {by_value,
            by_offset,
            mask ? by_mask : at::Tensor(),
            by_weight,
            bias ? by_bias : at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

template <ConvNamespace where>
at::Tensor conv_autograd(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  if (wants_derivative(value) || wants_derivative(offset) || wants_derivative(mask) ||
      wants_derivative(weight) || wants_derivative(bias)) {
    // torch.func runs no autograd function written in C++, which has no forward-mode rule either.
    if (has_tangent(value) || has_tangent(offset) || has_tangent(mask) || has_tangent(weight) ||
        has_tangent(bias) || at::functorch::maybeCurrentDynamicLayer().has_value()) {
      return conv_eager(value, offset, mask, weight, bias, geometry);
    }
    return ConvFunction<where>::apply(value, offset, mask, weight, bias, geometry);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call<where, at::Tensor>(geometry, value, offset, mask, weight, bias);
}

template <ConvNamespace where>
ConvGradients conv_backward_autograd(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& offset,
                                     const std::optional<at::Tensor>& mask,
                                     const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias,
                                     const ConvGeometry& geometry) {
  if (wants_derivative(grad_output) || wants_derivative(value) || wants_derivative(offset) ||
      wants_derivative(mask) || wants_derivative(weight) || wants_derivative(bias)) {
    return conv_backward_eager(grad_output, value, offset, mask, weight, bias, geometry);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call<where, ConvGradients>(geometry, grad_output, value, offset, mask, weight, bias);
}

#define DEFORM_CONV_AUTOGRAD(where)                                                   \
  template at::Tensor conv_autograd<ConvNamespace::where>(                            \
      const at::Tensor&, const at::Tensor&, const OptionalTensor&, const at::Tensor&, \
      const OptionalTensor&, const ConvGeometry&);                                    \
  template ConvGradients conv_backward_autograd<ConvNamespace::where>(                \
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&, \
      const at::Tensor&, const OptionalTensor&, const ConvGeometry&)

DEFORM_CONV_AUTOGRAD(kDeform);
DEFORM_CONV_AUTOGRAD(kCpu);
DEFORM_CONV_AUTOGRAD(kCuda);
DEFORM_CONV_AUTOGRAD(kJit);
DEFORM_CONV_AUTOGRAD(kReference);

}  // namespace deform::ops
