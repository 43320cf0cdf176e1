#include "attn/attn.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "attn/attn_cpu.h"
#include "attn/operands.h"
#include "common/cpu_kernel.h"
#include "common/dtypes.h"

namespace deform::ops {
namespace {

// REQUIRES: both tensors are contiguous.
kernels::AttnCpuArguments arguments_of(const at::Tensor& value, const at::Tensor& offset_mask,
                                       const AttnParameters& p) {
  return {
      .value = value.const_data_ptr(),
      .offset_mask = offset_mask.const_data_ptr(),
      .height = value.size(1),
      .width = value.size(2),
      .out_height = offset_mask.size(1),
      .out_width = offset_mask.size(2),
      .groups = p.groups,
      .channels = p.group_dims,
      .row_elements = offset_mask.size(3),
      .grid = attn_grid(p),
      .value_dtype = kernel_dtype(value.scalar_type()),
      .offset_dtype = kernel_dtype(offset_mask.scalar_type()),
      .softmax = p.softmax,
  };
}

}  // namespace

at::Tensor attn_cpu(const at::Tensor& value, const at::Tensor& offset_mask,
                    const AttnParameters& p) {
  check_attn_operands(value, offset_mask, p);
  check_attn_limits(value, p);
  at::Tensor output = at::empty(
      {value.size(0), offset_mask.size(1), offset_mask.size(2), value.size(3)}, value.options());
  if (output.numel() == 0) return output;

  const at::Tensor packed_value = value.contiguous(), packed_offsets = offset_mask.contiguous();
  const kernels::AttnCpuArguments arguments = arguments_of(packed_value, packed_offsets, p);
  static const kernels::AttnCpuKernel kernel = DEFORM_SELECT_CPU_KERNEL(attn_cpu);
  const size_t scratch_bytes = kernels::attn_cpu_scratch_bytes(arguments);
  void* const to = output.mutable_data_ptr();
  // Some tens of microseconds of work for a task, so that starting one doesn't show.
  const int64_t work = arguments.groups * arguments.grid.points * (arguments.channels + 16);
  const int64_t grain = std::max<int64_t>(1, 65536 / work);
  const int64_t outputs = output.size(0) * output.size(1) * output.size(2);
  at::parallel_for(0, outputs, grain, [&](int64_t begin, int64_t end) {
    const CpuScratch scratch = cpu_scratch(scratch_bytes);
    kernel(arguments, to, begin, end, scratch.get());
  });
  return output;
}

AttnGradients attn_backward_cpu(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset_mask, const AttnParameters& p) {
  check_attn_operands(grad_output, value, offset_mask, p);
  check_attn_limits(value, p);
  const bool half = value.scalar_type() == at::kHalf || value.scalar_type() == at::kBFloat16;
  at::Tensor sums =
      at::zeros(value.sizes(), value.options().dtype(half ? at::kFloat : value.scalar_type()));
  // Elements past the points' have no other writer.
  const bool has_more = offset_mask.size(3) > p.groups * p.points() * 3;
  at::Tensor mask_gradient = has_more ? at::zeros(offset_mask.sizes(), offset_mask.options())
                                      : at::empty(offset_mask.sizes(), offset_mask.options());
  if (grad_output.numel() > 0) {
    const at::Tensor packed_grad = grad_output.contiguous(), packed_value = value.contiguous(),
                     packed_offsets = offset_mask.contiguous();
    const kernels::AttnCpuArguments arguments = arguments_of(packed_value, packed_offsets, p);
    const kernels::AttnCpuGradients gradients{.output = packed_grad.const_data_ptr(),
                                              .value = sums.mutable_data_ptr(),
                                              .offset_mask = mask_gradient.mutable_data_ptr()};
    static const kernels::AttnBackwardCpuKernel kernel =
        DEFORM_SELECT_CPU_KERNEL(attn_backward_cpu);
    const size_t scratch_bytes = kernels::attn_backward_cpu_scratch_bytes(arguments);
    // Whole groups of a picture: a pixel's gradient has one writer, which adds in one order.
    const int64_t work = arguments.out_height * arguments.out_width * arguments.grid.points *
                         (4 * arguments.channels + 32);
    const int64_t grain = std::max<int64_t>(1, 65536 / work);
    at::parallel_for(0, value.size(0) * p.groups, grain, [&](int64_t begin, int64_t end) {
      const CpuScratch scratch = cpu_scratch(scratch_bytes);
      kernel(arguments, gradients, begin, end, scratch.get());
    });
  }
  return {half ? sums.to(value.scalar_type()) : sums, mask_gradient};
}

}  // namespace deform::ops
