#include "msda/msda.h"

#include <ATen/ops/empty.h>

#include "msda/operands.h"

namespace deform::ops {

at::Tensor msda_meta(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, bool softmax) {
  check_msda_operands(msda_name(softmax), value, spatial_shapes, level_start_index,
                      sampling_locations, attention_weights);
  return at::empty_symint(
      {value.sym_size(0), sampling_locations.sym_size(1), value.sym_size(2) * value.sym_size(3)},
      value.options());
}

}  // namespace deform::ops
