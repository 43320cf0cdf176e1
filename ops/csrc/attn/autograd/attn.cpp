#include "attn/attn.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/functorch/DynamicLayer.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <string>
#include <type_traits>

namespace deform::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const char* prefix(AttnNamespace where) {
  switch (where) {
    case AttnNamespace::kDeform:
      return "deform::";
    case AttnNamespace::kCpu:
      return "deform_cpu::";
    case AttnNamespace::kCuda:
      return "deform_cuda::";
    case AttnNamespace::kJit:
      return "deform_jit::";
    default:
      return "deform_reference::";
  }
}

// Calls the namespace's operator through the dispatcher: attn or attn_softmax where Result is a
// tensor, their backward where it is the gradients.
template <AttnNamespace where, class Result, class... Tensors>
Result call(const AttnParameters& p, const Tensors&... operands) {
  const auto invoke = [&](auto... options) {
    using Signature =
        Result(const Tensors&..., int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
               int64_t, int64_t, int64_t, double, bool, decltype(options)...);
    const auto find = [](std::string name) {
      if (std::is_same_v<Result, AttnGradients>) name += "_backward";
      return c10::Dispatcher::singleton()
          .findSchemaOrThrow((prefix(where) + name).c_str(), "")
          .template typed<Signature>();
    };
    static const auto plain = find("attn");
    static const auto with_softmax = find("attn_softmax");
    return (p.softmax ? with_softmax : plain)
        .call(operands..., p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w,
              p.dilation_h, p.dilation_w, p.groups, p.group_dims, p.spread, p.drop_center,
              options...);
  };
  if constexpr (where == AttnNamespace::kCuda || where == AttnNamespace::kJit) {
    return invoke(p.fp32acc);
  } else {
    return invoke();
  }
}

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

bool wants_gradient(const at::Tensor& tensor) {
  return c10::GradMode::is_enabled() && tensor.requires_grad();
}

template <class... Tensors>
bool any_wants_derivative(const Tensors&... tensors) {
  return (... || (wants_gradient(tensors) || has_tangent(tensors)));
}

c10::IValue pack(const AttnParameters& p) {
  return c10::List<int64_t>({p.kernel_h, p.kernel_w, p.stride_h, p.stride_w, p.pad_h, p.pad_w,
                             p.dilation_h, p.dilation_w, p.groups, p.group_dims, p.drop_center,
                             p.softmax, p.fp32acc});
}

AttnParameters unpack(const c10::IValue& packed, double spread) {
  const std::vector<int64_t> n = packed.toIntVector();
  return {n[0], n[1], n[2], n[3],   n[4],       n[5],       n[6],
          n[7], n[8], n[9], spread, n[10] != 0, n[11] != 0, n[12] != 0};
}

template <AttnNamespace where>
class AttnFunction : public torch::autograd::Function<AttnFunction<where>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value,
                            const at::Tensor& offset_mask, const AttnParameters& parameters) {
    context->save_for_backward({value, offset_mask});
    context->saved_data["parameters"] = pack(parameters);
    context->saved_data["spread"] = parameters.spread;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call<where, at::Tensor>(parameters, value, offset_mask);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const AttnParameters parameters =
        unpack(context->saved_data["parameters"], context->saved_data["spread"].toDouble());
    auto [value_gradient, mask_gradient] =
        call<where, AttnGradients>(parameters, gradients[0], saved[0], saved[1]);
    return {value_gradient, mask_gradient, at::Tensor()};
  }
};

}  // namespace

template <AttnNamespace where>
at::Tensor attn_autograd(const at::Tensor& value, const at::Tensor& offset_mask,
                         const AttnParameters& parameters) {
  if (any_wants_derivative(value, offset_mask)) {
    // torch.func runs no autograd function written in C++, which has no forward-mode rule either.
    if (has_tangent(value) || has_tangent(offset_mask) ||
        at::functorch::maybeCurrentDynamicLayer().has_value()) {
      return attn_eager(value, offset_mask, parameters);
    }
    return AttnFunction<where>::apply(value, offset_mask, parameters);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call<where, at::Tensor>(parameters, value, offset_mask);
}

template <AttnNamespace where>
AttnGradients attn_backward_autograd(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& offset_mask,
                                     const AttnParameters& parameters) {
  if (any_wants_derivative(grad_output, value, offset_mask)) {
    return attn_backward_eager(grad_output, value, offset_mask, parameters);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call<where, AttnGradients>(parameters, grad_output, value, offset_mask);
}

#define DEFORM_ATTN_AUTOGRAD(where)                                                             \
  template at::Tensor attn_autograd<AttnNamespace::where>(const at::Tensor&, const at::Tensor&, \
                                                          const AttnParameters&);               \
  template AttnGradients attn_backward_autograd<AttnNamespace::where>(                          \
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const AttnParameters&)

DEFORM_ATTN_AUTOGRAD(kDeform);
DEFORM_ATTN_AUTOGRAD(kCpu);
DEFORM_ATTN_AUTOGRAD(kCuda);
DEFORM_ATTN_AUTOGRAD(kJit);
DEFORM_ATTN_AUTOGRAD(kReference);

}  // namespace deform::ops
