#include "msda/msda.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "common/cpu_kernel.h"
#include "common/dtypes.h"
#include "msda/msda_cpu.h"
#include "msda/operands.h"

namespace deform::ops {
at::Tensor msda_cpu(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, bool softmax) {
  const char* op = msda_name(softmax);
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_msda_limits(op, value, sampling_locations);
  const auto table = read_level_table(op, spatial_shapes, level_start_index, value.size(1));
  const int64_t batch = value.size(0);
  const int64_t queries = sampling_locations.size(1);
  at::Tensor output = at::empty({batch, queries, value.size(2) * value.size(3)}, value.options());
  if (output.numel() == 0) return output;

  const at::Tensor packed_value = value.contiguous();
  const at::Tensor packed_locations = sampling_locations.contiguous();
  const at::Tensor packed_weights = attention_weights.contiguous();
  const kernels::MsdaCpuArguments arguments{
      .value = packed_value.const_data_ptr(),
      .level = table.data(),
      .locations = packed_locations.const_data_ptr(),
      .weights = packed_weights.const_data_ptr(),
      .output = output.mutable_data_ptr(),
      .rows = value.size(1),
      .queries = queries,
      .heads = value.size(2),
      .channels = value.size(3),
      .levels = sampling_locations.size(3),
      .points = sampling_locations.size(4),
      .value_dtype = kernel_dtype(value.scalar_type()),
      .locations_dtype = kernel_dtype(sampling_locations.scalar_type()),
      .weights_dtype = kernel_dtype(attention_weights.scalar_type()),
      .softmax = softmax,
  };
  static const kernels::MsdaCpuKernel kernel = DEFORM_SELECT_CPU_KERNEL(msda_cpu);
  const size_t scratch_bytes =
      kernels::msda_cpu_scratch_bytes(arguments.heads, arguments.levels, arguments.points);
  // Some tens of microseconds of work for a task, so that starting one doesn't show.
  const int64_t work =
      arguments.heads * arguments.levels * arguments.points * (arguments.channels + 16);
  const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, work));
  at::parallel_for(0, batch * queries, grain, [&](int64_t begin, int64_t end) {
    const CpuScratch scratch = cpu_scratch(scratch_bytes);
    kernel(arguments, begin, end, scratch.get());
  });
  return output;
}

}  // namespace deform::ops
