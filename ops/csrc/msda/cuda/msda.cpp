#include "msda/msda.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "common/checks.h"
#include "common/dtypes.h"
#include "common/launch_on.h"
#include "jit/jit_kernels.h"
#include "msda/msda_cuda.h"
#include "msda/operands.h"
#include "select/select.h"

namespace deform::ops {

#ifdef DEFORM_CUDA_MSDA
namespace {

// Operands made contiguous. Checks what a launch needs to be true of them, and the level table's
// contents where that is asked for. REQUIRES: value's device is the current one.
struct CudaOperands {
  at::Tensor value, shapes, starts, locations, weights;

  CudaOperands(const char* op, const at::Tensor& given_value, const at::Tensor& spatial_shapes,
               const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
               const at::Tensor& attention_weights) {
    check_msda_limits(op, given_value, sampling_locations);
    if (validate_requested()) {
      read_level_table(op, spatial_shapes.to(at::kCPU), level_start_index.to(at::kCPU),
                       given_value.size(1));
    }
    value = given_value.contiguous();
    shapes = spatial_shapes.contiguous();
    starts = level_start_index.contiguous();
    locations = sampling_locations.contiguous();
    weights = attention_weights.contiguous();
  }

  kernels::MsdaCudaArguments arguments(bool softmax) const {
    return {
        .value = value.const_data_ptr(),
        .shapes = shapes.const_data_ptr(),
        .first_row = starts.const_data_ptr(),
        .locations = locations.const_data_ptr(),
        .weights = weights.const_data_ptr(),
        .batch = value.size(0),
        .rows = value.size(1),
        .queries = locations.size(1),
        .heads = value.size(2),
        .channels = value.size(3),
        .levels = locations.size(3),
        .points = locations.size(4),
        .value_dtype = kernel_dtype(value.scalar_type()),
        .locations_dtype = kernel_dtype(locations.scalar_type()),
        .weights_dtype = kernel_dtype(weights.scalar_type()),
        .shapes_are_int64 = shapes.scalar_type() == at::kLong,
        .first_row_is_int64 = starts.scalar_type() == at::kLong,
        .softmax = softmax,
    };
  }
};

// With kernels of `run_time`; null: with those that are compiled into this library.
at::Tensor run(const at::Tensor& value, const at::Tensor& spatial_shapes,
               const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
               const at::Tensor& attention_weights, const MsdaOptions& options,
               kernels::RunTimeKernels* run_time) {
  const char* op = options.name();
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  const c10::DeviceGuard device_guard(value.device());
  const CudaOperands operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                              attention_weights);
  at::Tensor output = at::empty(
      {value.size(0), sampling_locations.size(1), value.size(2) * value.size(3)}, value.options());
  if (output.numel() == 0) return output;
  const char* failure =
      kernels::msda_cuda(operands.arguments(options.softmax), output.mutable_data_ptr(),
                         launch_on(value.device(), run_time));
  TORCH_CHECK(failure == nullptr, op, ": CUDA launch failed: ", failure);
  return output;
}

MsdaGradients run_backward(const at::Tensor& grad_output, const at::Tensor& value,
                           const at::Tensor& spatial_shapes, const at::Tensor& level_start_index,
                           const at::Tensor& sampling_locations,
                           const at::Tensor& attention_weights, const MsdaOptions& options,
                           kernels::RunTimeKernels* run_time) {
  const char* op = options.name();
  check_msda_operands(op, grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  const c10::DeviceGuard device_guard(value.device());
  const CudaOperands operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                              attention_weights);
  // Atomic additions come in any order.
  if (at::globalContext().deterministicAlgorithms()) {
    return msda_backward_eager(grad_output, value, spatial_shapes, level_start_index,
                               sampling_locations, attention_weights, options);
  }
  const bool native = sums_in_own_type(value, options.fp32acc);
  at::Tensor sums =
      at::zeros(value.sizes(), value.options().dtype(native ? value.scalar_type() : at::kFloat));
  at::Tensor by_locations = at::empty(sampling_locations.sizes(), sampling_locations.options());
  at::Tensor by_weights = at::empty(attention_weights.sizes(), attention_weights.options());
  if (grad_output.numel() > 0) {
    const at::Tensor packed_grad = grad_output.contiguous();
    const kernels::MsdaCudaGradients gradients{
        .output = packed_grad.const_data_ptr(),
        .value = sums.mutable_data_ptr(),
        .locations = by_locations.mutable_data_ptr(),
        .weights = by_weights.mutable_data_ptr(),
        .native = native,
    };
    const char* failure = kernels::msda_backward_cuda(
        operands.arguments(options.softmax), gradients, launch_on(value.device(), run_time));
    TORCH_CHECK(failure == nullptr, op, ": CUDA launch of the backward failed: ", failure);
  }
  return {native ? sums : sums.to(value.scalar_type()), by_locations, by_weights};
}

}  // namespace

at::Tensor msda_cuda(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, const MsdaOptions& options) {
  return run(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
             options, nullptr);
}

MsdaGradients msda_backward_cuda(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& spatial_shapes,
                                 const at::Tensor& level_start_index,
                                 const at::Tensor& sampling_locations,
                                 const at::Tensor& attention_weights, const MsdaOptions& options) {
  return run_backward(grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights, options, nullptr);
}

at::Tensor msda_jit(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, const MsdaOptions& options) {
  return run(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
             options, &jit_kernels(value.device()));
}

MsdaGradients msda_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& spatial_shapes,
                                const at::Tensor& level_start_index,
                                const at::Tensor& sampling_locations,
                                const at::Tensor& attention_weights, const MsdaOptions& options) {
  return run_backward(grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights, options, &jit_kernels(value.device()));
}

#else

at::Tensor msda_cuda(const at::Tensor& value, const at::Tensor&, const at::Tensor&,
                     const at::Tensor&, const at::Tensor&, const MsdaOptions& options) {
  TORCH_CHECK(
      false, options.name(), ": value is on ", value.device(),
      ", but this build of the operator library has no CUDA kernels for it; build it with a "
      "CUDA toolkit, or call the operator of the same name in deform_eager");
}

MsdaGradients msda_backward_cuda(const at::Tensor&, const at::Tensor& value,
                                 const at::Tensor& spatial_shapes,
                                 const at::Tensor& level_start_index,
                                 const at::Tensor& sampling_locations,
                                 const at::Tensor& attention_weights, const MsdaOptions& options) {
  return {msda_cuda(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                    options),
          at::Tensor(), at::Tensor()};
}

at::Tensor msda_jit(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, const MsdaOptions& options) {
  return msda_cuda(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                   options);
}

MsdaGradients msda_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& spatial_shapes,
                                const at::Tensor& level_start_index,
                                const at::Tensor& sampling_locations,
                                const at::Tensor& attention_weights, const MsdaOptions& options) {
  return msda_backward_cuda(grad_output, value, spatial_shapes, level_start_index,
                            sampling_locations, attention_weights, options);
}

#endif

}  // namespace deform::ops
