#include "msda/msda.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/GradMode.h>

namespace deform::ops {
namespace {

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const at::Tensor&, const at::Tensor&);

auto find(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

bool wants_derivative(const at::Tensor& tensor) {
  return (c10::GradMode::is_enabled() && tensor.requires_grad()) ||
         tensor._fw_grad(/*level=*/0).defined();
}

}  // namespace

at::Tensor msda_autograd(const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights, bool softmax) {
  if (wants_derivative(value) || wants_derivative(sampling_locations) ||
      wants_derivative(attention_weights)) {
    return msda_eager(value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights, softmax);
  }
  static const auto plain = find("deform::msda");
  static const auto with_softmax = find("deform::msda_softmax");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return (softmax ? with_softmax : plain)
      .call(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
}

}  // namespace deform::ops
