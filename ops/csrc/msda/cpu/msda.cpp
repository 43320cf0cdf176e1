#include "msda/msda.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <vector>

#include "common/cpu_kernel.h"
#include "common/dtypes.h"
#include "msda/msda_cpu.h"
#include "msda/operands.h"

namespace deform::ops {
namespace {

// Operands made contiguous, and the level table read. Checks both.
struct CpuOperands {
  at::Tensor value, locations, weights;
  std::vector<kernels::MsdaLevel> table;

  CpuOperands(const char* op, const at::Tensor& given_value, const at::Tensor& spatial_shapes,
              const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
              const at::Tensor& attention_weights) {
    check_msda_limits(op, given_value, sampling_locations);
    table = read_level_table(op, spatial_shapes, level_start_index, given_value.size(1));
    value = given_value.contiguous();
    locations = sampling_locations.contiguous();
    weights = attention_weights.contiguous();
  }

  int64_t batch() const { return value.size(0); }

  kernels::MsdaCpuArguments arguments(bool softmax) const {
    return {
        .value = value.const_data_ptr(),
        .level = table.data(),
        .locations = locations.const_data_ptr(),
        .weights = weights.const_data_ptr(),
        .rows = value.size(1),
        .queries = locations.size(1),
        .heads = value.size(2),
        .channels = value.size(3),
        .levels = locations.size(3),
        .points = locations.size(4),
        .value_dtype = kernel_dtype(value.scalar_type()),
        .locations_dtype = kernel_dtype(locations.scalar_type()),
        .weights_dtype = kernel_dtype(weights.scalar_type()),
        .softmax = softmax,
    };
  }
};

// So many steps of `work` that starting a task doesn't show: some tens of microseconds.
int64_t grain_of(int64_t work) { return std::max<int64_t>(1, 65536 / std::max<int64_t>(1, work)); }

}  // namespace

at::Tensor msda_cpu(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, const MsdaOptions& options) {
  const char* op = options.name();
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  const CpuOperands operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                             attention_weights);
  const int64_t batch = operands.batch(), queries = sampling_locations.size(1);
  at::Tensor output = at::empty({batch, queries, value.size(2) * value.size(3)}, value.options());
  if (output.numel() == 0) return output;

  const kernels::MsdaCpuArguments arguments = operands.arguments(options.softmax);
  static const kernels::MsdaCpuKernel kernel = DEFORM_SELECT_CPU_KERNEL(msda_cpu);
  const size_t scratch_bytes = kernels::msda_cpu_scratch_bytes(arguments);
  void* const to = output.mutable_data_ptr();
  const int64_t work =
      arguments.heads * arguments.levels * arguments.points * (arguments.channels + 16);
  at::parallel_for(0, batch * queries, grain_of(work), [&](int64_t begin, int64_t end) {
    const CpuScratch scratch = cpu_scratch(scratch_bytes);
    kernel(arguments, to, begin, end, scratch.get());
  });
  return output;
}

MsdaGradients msda_backward_cpu(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& spatial_shapes,
                                const at::Tensor& level_start_index,
                                const at::Tensor& sampling_locations,
                                const at::Tensor& attention_weights, const MsdaOptions& options) {
  const char* op = options.name();
  check_msda_operands(op, grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  const CpuOperands operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                             attention_weights);
  const at::Tensor packed_grad = grad_output.contiguous();
  const auto like = [](const at::Tensor& tensor) {
    return at::empty(tensor.sizes(), tensor.options());
  };
  MsdaGradients results{like(value), like(sampling_locations), like(attention_weights)};
  const kernels::MsdaCpuArguments arguments = operands.arguments(options.softmax);
  const int64_t points = arguments.queries * arguments.levels * arguments.points;
  const kernels::MsdaCpuGradients gradients{
      .output = packed_grad.const_data_ptr(),
      .value = std::get<0>(results).mutable_data_ptr(),
      .locations = std::get<1>(results).mutable_data_ptr(),
      .weights = std::get<2>(results).mutable_data_ptr(),
      .pack_heads = points >= 2 * arguments.rows,
  };
  static const kernels::MsdaBackwardCpuKernel kernel = DEFORM_SELECT_CPU_KERNEL(msda_backward_cpu);
  const size_t scratch_bytes =
      kernels::msda_backward_cpu_scratch_bytes(arguments, gradients.pack_heads);
  // Whole heads of a picture: a pixel's gradient has one writer, which adds in one order.
  const int64_t work = points * (4 * arguments.channels + 32) + arguments.rows * arguments.channels;
  at::parallel_for(0, operands.batch() * arguments.heads, grain_of(work),
                   [&](int64_t begin, int64_t end) {
                     const CpuScratch scratch = cpu_scratch(scratch_bytes);
                     kernel(arguments, gradients, begin, end, scratch.get());
                   });
  return results;
}

}  // namespace deform::ops
