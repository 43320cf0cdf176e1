#include "attn/operands.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <cstdint>

#include "common/checks.h"

namespace deform::ops {
namespace {

void check_parameter(const AttnParameters& p, const char* name, int64_t number, int64_t least) {
  TORCH_CHECK(number >= least && number <= INT32_MAX, p.name(), ": ", name, " must be at least ",
              least, " and less than 2^31, but is ", number);
}

void check_parameters(const AttnParameters& p) {
  check_parameter(p, "kernel_h", p.kernel_h, 1);
  check_parameter(p, "kernel_w", p.kernel_w, 1);
  check_parameter(p, "stride_h", p.stride_h, 1);
  check_parameter(p, "stride_w", p.stride_w, 1);
  check_parameter(p, "pad_h", p.pad_h, -INT32_MAX);
  check_parameter(p, "pad_w", p.pad_w, -INT32_MAX);
  check_parameter(p, "dilation_h", p.dilation_h, 1);
  check_parameter(p, "dilation_w", p.dilation_w, 1);
  check_parameter(p, "groups", p.groups, 1);
  check_parameter(p, "group_dims", p.group_dims, 1);
  TORCH_CHECK(std::isfinite(p.spread), p.name(), ": spread must be finite, but is ", p.spread);
  TORCH_CHECK(p.points() >= 1, p.name(), ": kernel_h times kernel_w must be at least 2 with ",
              "drop_center, which leaves out the only point of a 1x1 kernel");
  constexpr int64_t kMostPoints = int64_t{1} << 30;
  TORCH_CHECK(p.points() <= kMostPoints / p.groups, p.name(),
              ": kernel_h times kernel_w times groups must be at most 2^30 points, but is ",
              p.kernel_h, " * ", p.kernel_w, " * ", p.groups);
}

// Of a convolution. The division of a numerator below zero rounds up, to 0 at most.
c10::SymInt output_size(const c10::SymInt& size, int64_t kernel, int64_t stride, int64_t pad,
                        int64_t dilation) {
  const c10::SymInt outputs = (size + (2 * pad - dilation * (kernel - 1) - 1 + stride)) / stride;
  if (const auto known = outputs.maybe_as_int(); known && *known < 0) return 0;
  return outputs;
}

}  // namespace

void check_attn_operands(const at::Tensor& value, const at::Tensor& offset_mask,
                         const AttnParameters& p) {
  const char* op = p.name();
  check_parameters(p);
  check_rank(op, "value", value, 4, "(B, H, W, G*D)");
  check_rank(op, "offset_mask", offset_mask, 4, "(B, Ho, Wo, G*K*3)");
  check_float(op, "value", value);
  check_float(op, "offset_mask", offset_mask);
  check_device(op, "offset_mask", offset_mask, value);
  check_layout(op, "value", value);
  check_layout(op, "offset_mask", offset_mask);

  check_positive(op, "value", value, 1, "row");
  check_positive(op, "value", value, 2, "column");
  check_size(op, "value", value, 3, p.groups * p.group_dims, "groups times group_dims");
  check_size(op, "offset_mask", offset_mask, 0, value.sym_size(0), "batch of value");
  check_size(op, "offset_mask", offset_mask, 1,
             output_size(value.sym_size(1), p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
             "output rows of value's height, kernel_h, stride_h, pad_h and dilation_h");
  check_size(op, "offset_mask", offset_mask, 2,
             output_size(value.sym_size(2), p.kernel_w, p.stride_w, p.pad_w, p.dilation_w),
             "output columns of value's width, kernel_w, stride_w, pad_w and dilation_w");
  const int64_t least = p.groups * p.points() * 3;
  TORCH_SYM_CHECK(offset_mask.sym_size(3).sym_ge(least), op, ": offset_mask must have at least ",
                  least, " channels (groups times points times 3) in dimension 3, but has ",
                  offset_mask.sym_size(3), ": ", offset_mask.sym_sizes());
}

void check_attn_operands(const at::Tensor& grad_output, const at::Tensor& value,
                         const at::Tensor& offset_mask, const AttnParameters& p) {
  const char* op = p.name();
  check_attn_operands(value, offset_mask, p);
  check_rank(op, "grad_output", grad_output, 4, "(B, Ho, Wo, G*D)");
  TORCH_CHECK(grad_output.scalar_type() == value.scalar_type(), op,
              ": grad_output must be of value's type, ", value.scalar_type(), ", but is ",
              grad_output.scalar_type());
  check_device(op, "grad_output", grad_output, value);
  check_layout(op, "grad_output", grad_output);
  check_size(op, "grad_output", grad_output, 0, value.sym_size(0), "batch of value");
  check_size(op, "grad_output", grad_output, 1, offset_mask.sym_size(1), "rows of offset_mask");
  check_size(op, "grad_output", grad_output, 2, offset_mask.sym_size(2), "columns of offset_mask");
  check_size(op, "grad_output", grad_output, 3, value.sym_size(3), "channels of value");
}

void check_attn_limits(const at::Tensor& value, const AttnParameters& p) {
  TORCH_CHECK(value.size(1) <= INT32_MAX / value.size(2), p.name(),
              ": value must have fewer than 2^31 pixels (H*W), but has ", value.size(1), " * ",
              value.size(2));
  TORCH_CHECK(value.size(3) <= INT32_MAX, p.name(),
              ": value must have fewer than 2^31 channels (G*D), but has ", value.size(3));
}

kernels::AttnGrid attn_grid(const AttnParameters& p) {
  const int64_t centre_x = p.dilation_w * (p.kernel_w - 1) / 2;
  const int64_t centre_y = p.dilation_h * (p.kernel_h - 1) / 2;
  return {
      .points = p.points(),
      .dropped = p.drop_center ? p.kernel_w / 2 * p.kernel_h + p.kernel_h / 2 : p.points(),
      .kernel_h = p.kernel_h,
      .stride_h = p.stride_h,
      .stride_w = p.stride_w,
      .start_x = static_cast<double>(-p.pad_w) + static_cast<double>(centre_x) * (1 - p.spread),
      .start_y = static_cast<double>(-p.pad_h) + static_cast<double>(centre_y) * (1 - p.spread),
      .step_x = static_cast<double>(p.dilation_w) * p.spread,
      .step_y = static_cast<double>(p.dilation_h) * p.spread,
      .spread = p.spread,
  };
}

}  // namespace deform::ops
