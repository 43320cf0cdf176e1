#include "msda/msda.h"

#include <ATen/ops/empty.h>

#include "msda/operands.h"

namespace deform::ops {

at::Tensor msda_meta(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, const MsdaOptions& options) {
  check_msda_operands(options.name(), value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  return at::empty_symint(
      {value.sym_size(0), sampling_locations.sym_size(1), value.sym_size(2) * value.sym_size(3)},
      value.options());
}

MsdaGradients msda_backward_meta(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& spatial_shapes,
                                 const at::Tensor& level_start_index,
                                 const at::Tensor& sampling_locations,
                                 const at::Tensor& attention_weights, const MsdaOptions& options) {
  check_msda_operands(options.name(), grad_output, value, spatial_shapes, level_start_index,
                      sampling_locations, attention_weights);
  const auto like = [](const at::Tensor& tensor) {
    return at::empty_symint(tensor.sym_sizes(), tensor.options());
  };
  return {like(value), like(sampling_locations), like(attention_weights)};
}

}  // namespace deform::ops
