#include "msda/msda.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "common/checks.h"
#include "common/current_stream.h"
#include "common/dtypes.h"
#include "msda/msda_cuda.h"
#include "msda/operands.h"

namespace deform::ops {

at::Tensor msda_cuda(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, bool softmax) {
  const char* op = msda_name(softmax);
#ifdef DEFORM_WITH_CUDA
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_msda_limits(op, value, sampling_locations);
  const c10::DeviceGuard device_guard(value.device());
  if (validate_requested()) {
    read_level_table(op, spatial_shapes.to(at::kCPU), level_start_index.to(at::kCPU),
                     value.size(1));
  }
  at::Tensor output = at::empty(
      {value.size(0), sampling_locations.size(1), value.size(2) * value.size(3)}, value.options());
  if (output.numel() == 0) return output;

  const at::Tensor packed_value = value.contiguous();
  const at::Tensor packed_shapes = spatial_shapes.contiguous();
  const at::Tensor packed_starts = level_start_index.contiguous();
  const at::Tensor packed_locations = sampling_locations.contiguous();
  const at::Tensor packed_weights = attention_weights.contiguous();
  const kernels::MsdaCudaArguments arguments{
      .value = packed_value.const_data_ptr(),
      .shapes = packed_shapes.const_data_ptr(),
      .first_row = packed_starts.const_data_ptr(),
      .locations = packed_locations.const_data_ptr(),
      .weights = packed_weights.const_data_ptr(),
      .output = output.mutable_data_ptr(),
      .batch = value.size(0),
      .rows = value.size(1),
      .queries = sampling_locations.size(1),
      .heads = value.size(2),
      .channels = value.size(3),
      .levels = sampling_locations.size(3),
      .points = sampling_locations.size(4),
      .value_dtype = kernel_dtype(value.scalar_type()),
      .locations_dtype = kernel_dtype(sampling_locations.scalar_type()),
      .weights_dtype = kernel_dtype(attention_weights.scalar_type()),
      .shapes_are_int64 = spatial_shapes.scalar_type() == at::kLong,
      .first_row_is_int64 = level_start_index.scalar_type() == at::kLong,
      .softmax = softmax,
  };
  const char* failure =
      kernels::msda_cuda(arguments, value.device().index(), current_stream(value.device()));
  TORCH_CHECK(failure == nullptr, op, ": CUDA launch failed: ", failure);
  return output;
#else
  TORCH_CHECK(false, op, ": value is on ", value.device(),
              ", but this build of the operator library has no CUDA kernels; build it with a CUDA "
              "toolkit, or call the operator of the same name in deform_eager");
#endif
}

}  // namespace deform::ops
