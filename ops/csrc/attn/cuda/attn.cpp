#include "attn/attn.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "attn/attn_cuda.h"
#include "attn/operands.h"
#include "common/dtypes.h"
#include "common/launch_on.h"
#include "jit/jit_kernels.h"
#include "select/select.h"

namespace deform::ops {

#ifdef DEFORM_CUDA_ATTN
namespace {

// REQUIRES: both tensors are contiguous.
kernels::AttnCudaArguments arguments_of(const at::Tensor& value, const at::Tensor& offset_mask,
                                        const AttnParameters& p) {
  return {
      .value = value.const_data_ptr(),
      .offset_mask = offset_mask.const_data_ptr(),
      .batch = value.size(0),
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

// With kernels of `run_time`; null: with those that are compiled into this library.
at::Tensor run(const at::Tensor& value, const at::Tensor& offset_mask, const AttnParameters& p,
               kernels::RunTimeKernels* run_time) {
  check_attn_operands(value, offset_mask, p);
  check_attn_limits(value, p);
  const c10::DeviceGuard device_guard(value.device());
  at::Tensor output = at::empty(
      {value.size(0), offset_mask.size(1), offset_mask.size(2), value.size(3)}, value.options());
  if (output.numel() == 0) return output;

  const at::Tensor packed_value = value.contiguous(), packed_offsets = offset_mask.contiguous();
  const char* failure =
      kernels::attn_cuda(arguments_of(packed_value, packed_offsets, p), output.mutable_data_ptr(),
                         launch_on(value.device(), run_time));
  TORCH_CHECK(failure == nullptr, p.name(), ": CUDA launch failed: ", failure);
  return output;
}

AttnGradients run_backward(const at::Tensor& grad_output, const at::Tensor& value,
                           const at::Tensor& offset_mask, const AttnParameters& p,
                           kernels::RunTimeKernels* run_time) {
  check_attn_operands(grad_output, value, offset_mask, p);
  check_attn_limits(value, p);
  // Atomic additions come in any order.
  if (at::globalContext().deterministicAlgorithms()) {
    return attn_backward_eager(grad_output, value, offset_mask, p);
  }
  const c10::DeviceGuard device_guard(value.device());
  const bool native = sums_in_own_type(value, p.fp32acc);
  at::Tensor sums =
      at::zeros(value.sizes(), value.options().dtype(native ? value.scalar_type() : at::kFloat));
  // Elements past the points' have no other writer.
  const bool has_more = offset_mask.size(3) > p.groups * p.points() * 3;
  at::Tensor mask_gradient = has_more ? at::zeros(offset_mask.sizes(), offset_mask.options())
                                      : at::empty(offset_mask.sizes(), offset_mask.options());
  if (grad_output.numel() > 0) {
    const at::Tensor packed_grad = grad_output.contiguous(), packed_value = value.contiguous(),
                     packed_offsets = offset_mask.contiguous();
    const kernels::AttnCudaGradients gradients{.output = packed_grad.const_data_ptr(),
                                               .value = sums.mutable_data_ptr(),
                                               .offset_mask = mask_gradient.mutable_data_ptr(),
                                               .native = native};
    const char* failure =
        kernels::attn_backward_cuda(arguments_of(packed_value, packed_offsets, p), gradients,
                                    launch_on(value.device(), run_time));
    TORCH_CHECK(failure == nullptr, p.name(), ": CUDA launch of the backward failed: ", failure);
  }
  return {native ? sums : sums.to(value.scalar_type()), mask_gradient};
}

}  // namespace

at::Tensor attn_cuda(const at::Tensor& value, const at::Tensor& offset_mask,
                     const AttnParameters& p) {
  return run(value, offset_mask, p, nullptr);
}

AttnGradients attn_backward_cuda(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset_mask, const AttnParameters& p) {
  return run_backward(grad_output, value, offset_mask, p, nullptr);
}

at::Tensor attn_jit(const at::Tensor& value, const at::Tensor& offset_mask,
                    const AttnParameters& p) {
  return run(value, offset_mask, p, &jit_kernels(value.device()));
}

AttnGradients attn_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset_mask, const AttnParameters& p) {
  return run_backward(grad_output, value, offset_mask, p, &jit_kernels(value.device()));
}

#else

at::Tensor attn_cuda(const at::Tensor& value, const at::Tensor&, const AttnParameters& p) {
  TORCH_CHECK(
      false, p.name(), ": value is on ", value.device(),
      ", but this build of the operator library has no CUDA kernels for it; build it with a "
      "CUDA toolkit, or call the operator of the same name in deform_eager");
}

AttnGradients attn_backward_cuda(const at::Tensor&, const at::Tensor& value,
                                 const at::Tensor& offset_mask, const AttnParameters& p) {
  return {attn_cuda(value, offset_mask, p), at::Tensor()};
}

at::Tensor attn_jit(const at::Tensor& value, const at::Tensor& offset_mask,
                    const AttnParameters& p) {
  return attn_cuda(value, offset_mask, p);
}

AttnGradients attn_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset_mask, const AttnParameters& p) {
  return attn_backward_cuda(grad_output, value, offset_mask, p);
}

#endif

}  // namespace deform::ops
