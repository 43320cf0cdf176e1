#include "msda/msda.h"

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

const char* prefix(MsdaNamespace where) {
  switch (where) {
    case MsdaNamespace::kDeform:
      return "deform::";
    case MsdaNamespace::kCpu:
      return "deform_cpu::";
    case MsdaNamespace::kCuda:
      return "deform_cuda::";
    case MsdaNamespace::kJit:
      return "deform_jit::";
    default:
      return "deform_reference::";
  }
}

// Calls the namespace's operator through the dispatcher: msda or msda_softmax where Result is a
// tensor, their backward where it is the gradients.
template <MsdaNamespace where, class Result, class... Tensors>
Result call(const MsdaOptions& options, const Tensors&... operands) {
  const auto invoke = [&](auto... more) {
    using Signature = Result(const Tensors&..., decltype(more)...);
    const auto find = [](std::string name) {
      if (std::is_same_v<Result, MsdaGradients>) name += "_backward";
      return c10::Dispatcher::singleton()
          .findSchemaOrThrow((prefix(where) + name).c_str(), "")
          .template typed<Signature>();
    };
    static const auto plain = find("msda");
    static const auto with_softmax = find("msda_softmax");
    return (options.softmax ? with_softmax : plain).call(operands..., more...);
  };
  if constexpr (where == MsdaNamespace::kCuda || where == MsdaNamespace::kJit) {
    return invoke(options.fp32acc);
  } else {
    return invoke();
  }
}

bool has_tangent(const at::Tensor& tensor) { return tensor._fw_grad(/*level=*/0).defined(); }

bool wants_derivative(const at::Tensor& tensor) {
  return (c10::GradMode::is_enabled() && tensor.requires_grad()) || has_tangent(tensor);
}

template <MsdaNamespace where>
class MsdaFunction : public torch::autograd::Function<MsdaFunction<where>> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value,
                            const at::Tensor& spatial_shapes, const at::Tensor& level_start_index,
                            const at::Tensor& sampling_locations,
                            const at::Tensor& attention_weights, const MsdaOptions& options) {
    context->save_for_backward(
        {value, spatial_shapes, level_start_index, sampling_locations, attention_weights});
    context->saved_data["softmax"] = options.softmax;
    context->saved_data["fp32acc"] = options.fp32acc;
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call<where, at::Tensor>(options, value, spatial_shapes, level_start_index,
                                   sampling_locations, attention_weights);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const MsdaOptions options{context->saved_data["softmax"].toBool(),
                              context->saved_data["fp32acc"].toBool()};
    auto [by_value, by_locations, by_weights] = call<where, MsdaGradients>(
        options, gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4]);
    return {by_value, at::Tensor(), at::Tensor(), by_locations, by_weights, at::Tensor()};
  }
};

}  // namespace

template <MsdaNamespace where>
at::Tensor msda_autograd(const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights, const MsdaOptions& options) {
  if (wants_derivative(value) || wants_derivative(sampling_locations) ||
      wants_derivative(attention_weights)) {
    // torch.func runs no autograd function written in C++, which has no forward-mode rule either.
    if (has_tangent(value) || has_tangent(sampling_locations) || has_tangent(attention_weights) ||
        at::functorch::maybeCurrentDynamicLayer().has_value()) {
      return msda_eager(value, spatial_shapes, level_start_index, sampling_locations,
                        attention_weights, options);
    }
    return MsdaFunction<where>::apply(value, spatial_shapes, level_start_index, sampling_locations,
                                      attention_weights, options);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call<where, at::Tensor>(options, value, spatial_shapes, level_start_index,
                                 sampling_locations, attention_weights);
}

template <MsdaNamespace where>
MsdaGradients msda_backward_autograd(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& spatial_shapes,
                                     const at::Tensor& level_start_index,
                                     const at::Tensor& sampling_locations,
                                     const at::Tensor& attention_weights,
                                     const MsdaOptions& options) {
  if (wants_derivative(grad_output) || wants_derivative(value) ||
      wants_derivative(sampling_locations) || wants_derivative(attention_weights)) {
    return msda_backward_eager(grad_output, value, spatial_shapes, level_start_index,
                               sampling_locations, attention_weights, options);
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return call<where, MsdaGradients>(options, grad_output, value, spatial_shapes, level_start_index,
                                    sampling_locations, attention_weights);
}

#define DEFORM_MSDA_AUTOGRAD(where)                                                               \
  template at::Tensor msda_autograd<MsdaNamespace::where>(const at::Tensor&, const at::Tensor&,   \
                                                          const at::Tensor&, const at::Tensor&,   \
                                                          const at::Tensor&, const MsdaOptions&); \
  template MsdaGradients msda_backward_autograd<MsdaNamespace::where>(                            \
      const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,                 \
      const at::Tensor&, const at::Tensor&, const MsdaOptions&)

DEFORM_MSDA_AUTOGRAD(kDeform);
DEFORM_MSDA_AUTOGRAD(kCpu);
DEFORM_MSDA_AUTOGRAD(kCuda);
DEFORM_MSDA_AUTOGRAD(kJit);
DEFORM_MSDA_AUTOGRAD(kReference);

}  // namespace deform::ops
