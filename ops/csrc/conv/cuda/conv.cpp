#include "conv/conv.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include "common/dtypes.h"
#include "common/launch_on.h"
#include "conv/conv_cuda.h"
#include "conv/operands.h"
#include "jit/jit_kernels.h"

namespace deform::ops {

#ifdef DEFORM_CUDA_CONV
namespace {

// What a grid's second and third dimension hold.
constexpr int64_t kMostBlocks = 65535;

void check_cuda_limits(const at::Tensor& weight, const ConvGeometry& g) {
  const int64_t tiles = (weight.size(0) / g.groups + 63) / 64;
  TORCH_CHECK(g.groups <= kMostBlocks / tiles && g.offset_groups <= kMostBlocks &&
                  weight.size(2) * weight.size(3) <= kMostBlocks,
              "conv: on CUDA offset_groups, the kernel's points, and groups times their output "
              "channels / 64 must each be at most ",
              kMostBlocks, ", but are ", g.offset_groups, ", ", weight.size(2) * weight.size(3),
              " and ", g.groups, " * ", tiles);
}

// Contiguous operands, for as long as a launch takes.
struct PackedOperands {
  at::Tensor value, offset, matrices;
  std::optional<at::Tensor> mask;

  PackedOperands(const at::Tensor& value, const at::Tensor& offset,
                 const std::optional<at::Tensor>& mask, const at::Tensor& weight, int64_t groups)
      : value(value.contiguous()),
        offset(offset.contiguous()),
        matrices(conv_weight_matrices(weight, groups, weight.scalar_type())) {
    if (mask) this->mask = mask->contiguous();
  }

  kernels::ConvCudaArguments arguments(const at::Tensor& weight, const ConvGeometry& g) const {
    return {
        .value = value.const_data_ptr(),
        .offset = offset.const_data_ptr(),
        .mask = mask ? mask->const_data_ptr() : nullptr,
        .weight = matrices.const_data_ptr(),
        .batch = value.size(0),
        .height = value.size(1),
        .width = value.size(2),
        .channels = value.size(3),
        .out_height = offset.size(1),
        .out_width = offset.size(2),
        .out_channels = weight.size(0),
        .kernel_h = weight.size(2),
        .kernel_w = weight.size(3),
        .stride_h = g.stride_h,
        .stride_w = g.stride_w,
        .pad_h = g.pad_h,
        .pad_w = g.pad_w,
        .dilation_h = g.dilation_h,
        .dilation_w = g.dilation_w,
        .groups = g.groups,
        .offset_groups = g.offset_groups,
        .value_dtype = kernel_dtype(value.scalar_type()),
        .offset_dtype = kernel_dtype(offset.scalar_type()),
        .mask_dtype = kernel_dtype(mask ? mask->scalar_type() : at::kFloat),
    };
  }
};

at::Tensor run(const at::Tensor& value, const at::Tensor& offset,
               const std::optional<at::Tensor>& mask, const at::Tensor& weight,
               const std::optional<at::Tensor>& bias, const ConvGeometry& geometry,
               kernels::RunTimeKernels* run_time) {
  check_conv_operands(value, offset, mask, weight, bias, geometry);
  check_conv_limits(value, weight);
  check_cuda_limits(weight, geometry);
  const c10::DeviceGuard device_guard(value.device());
  at::Tensor result =
      at::empty({value.size(0), offset.size(1), offset.size(2), weight.size(0)}, value.options());
  if (result.numel() == 0) return result;

  const PackedOperands operands(value, offset, mask, weight, geometry.groups);
  const at::Tensor packed_bias = bias ? bias->contiguous() : at::Tensor();
  const char* failure = kernels::conv_cuda(
      operands.arguments(weight, geometry), bias ? packed_bias.const_data_ptr() : nullptr,
      result.mutable_data_ptr(), launch_on(value.device(), run_time));
  TORCH_CHECK(failure == nullptr, "conv: CUDA launch failed: ", failure);
  return result;
}

ConvGradients run_backward(const at::Tensor& grad_output, const at::Tensor& value,
                           const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                           const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                           const ConvGeometry& geometry, kernels::RunTimeKernels* run_time) {
  check_conv_operands(grad_output, value, offset, mask, weight, bias, geometry);
  check_conv_limits(value, weight);
  check_cuda_limits(weight, geometry);
  // Atomic additions come in any order.
  if (at::globalContext().deterministicAlgorithms()) {
    return conv_backward_eager(grad_output, value, offset, mask, weight, bias, geometry);
  }
  const c10::DeviceGuard device_guard(value.device());
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  const auto options = value.options().dtype(compute);
  at::Tensor by_value = at::zeros(value.sizes(), options);
  at::Tensor by_matrices =
      at::zeros({geometry.groups, weight.size(2) * weight.size(3) * weight.size(1),
                 weight.size(0) / geometry.groups},
                options);
  at::Tensor by_offset = at::empty(offset.sizes(), offset.options());
  at::Tensor by_mask =
      mask ? at::empty(mask->sizes(), mask->options()) : at::empty({0}, value.options());
  if (grad_output.numel() > 0) {
    const PackedOperands operands(value, offset, mask, weight, geometry.groups);
    const at::Tensor packed_grad = grad_output.contiguous();
    const kernels::ConvCudaGradients gradients{.output = packed_grad.const_data_ptr(),
                                               .value = by_value.mutable_data_ptr(),
                                               .weight = by_matrices.mutable_data_ptr(),
                                               .offset = by_offset.mutable_data_ptr(),
                                               .mask = mask ? by_mask.mutable_data_ptr() : nullptr};
    const char* failure = kernels::conv_backward_cuda(
        operands.arguments(weight, geometry), gradients, launch_on(value.device(), run_time));
    TORCH_CHECK(failure == nullptr, "conv: CUDA launch of the backward failed: ", failure);
  }
  const at::ScalarType type = value.scalar_type();
  const at::Tensor by_bias =
      bias ? grad_output.to(compute).sum({0, 1, 2}).to(type) : at::empty({0}, value.options());
  return {by_value.to(type), by_offset, by_mask, conv_weight_from_matrices(by_matrices, weight),
          by_bias};
}

}  // namespace

at::Tensor conv_cuda(const at::Tensor& value, const at::Tensor& offset,
                     const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  return run(value, offset, mask, weight, bias, geometry, nullptr);
}

ConvGradients conv_backward_cuda(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 const ConvGeometry& geometry) {
  return run_backward(grad_output, value, offset, mask, weight, bias, geometry, nullptr);
}

at::Tensor conv_jit(const at::Tensor& value, const at::Tensor& offset,
                    const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  return run(value, offset, mask, weight, bias, geometry, &jit_kernels(value.device()));
}

ConvGradients conv_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                const ConvGeometry& geometry) {
  return run_backward(grad_output, value, offset, mask, weight, bias, geometry,
                      &jit_kernels(value.device()));
}

#else

at::Tensor conv_cuda(const at::Tensor& value, const at::Tensor&, const std::optional<at::Tensor>&,
                     const at::Tensor&, const std::optional<at::Tensor>&, const ConvGeometry&) {
  TORCH_CHECK(
      false, "conv: value is on ", value.device(),
      ", but this build of the operator library has no CUDA kernels for it; build it with a "
      "CUDA toolkit, or call the operator of the same name in deform_eager");
}

ConvGradients conv_backward_cuda(const at::Tensor&, const at::Tensor& value,
                                 const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 const ConvGeometry& geometry) {
  const at::Tensor failed = conv_cuda(value, offset, mask, weight, bias, geometry);
  return {failed, failed, failed, failed, failed};
}

at::Tensor conv_jit(const at::Tensor& value, const at::Tensor& offset,
                    const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  return conv_cuda(value, offset, mask, weight, bias, geometry);
}

ConvGradients conv_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                const ConvGeometry& geometry) {
  return conv_backward_cuda(grad_output, value, offset, mask, weight, bias, geometry);
}

#endif

}  // namespace deform::ops
