#include "conv/operands.h"

#include <c10/util/Exception.h>

#include <limits>

#include "common/checks.h"

namespace deform::ops {
namespace {

constexpr const char* kOp = "conv";

void check_parameter(const char* name, int64_t number, int64_t least) {
  TORCH_CHECK(number >= least && number <= INT32_MAX, kOp, ": ", name, " must be at least ", least,
              " and less than 2^31, but is ", number);
}

void check_divides(const char* what, const c10::SymInt& size, const char* name, int64_t number) {
  TORCH_SYM_CHECK((size % number).sym_eq(0), kOp, ": ", what, ", ", size,
                  ", must be a multiple of ", name, ", ", number);
}

// Of a convolution on one axis. The division of a numerator below zero rounds up, to 0 at most.
c10::SymInt output_size(const c10::SymInt& size, const c10::SymInt& kernel, int64_t stride,
                        int64_t pad, int64_t dilation) {
  const c10::SymInt outputs = (size + 2 * pad - (kernel - 1) * dilation - 1 + stride) / stride;
  if (const auto known = outputs.maybe_as_int(); known && *known < 0) return 0;
  return outputs;
}

void check_operand(const char* name, const at::Tensor& tensor, const at::Tensor& value) {
  check_float(kOp, name, tensor);
  check_device(kOp, name, tensor, value);
  check_layout(kOp, name, tensor);
}

void check_values_type(const char* name, const at::Tensor& tensor, const at::Tensor& value) {
  TORCH_CHECK(tensor.scalar_type() == value.scalar_type(), kOp, ": ", name,
              " must have value's type, ", value.scalar_type(), ", but is ", tensor.scalar_type());
}

}  // namespace

void check_conv_operands(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& g,
                         std::optional<int64_t> row0) {
  check_parameter("stride_h", g.stride_h, 1);
  check_parameter("stride_w", g.stride_w, 1);
  check_parameter("dilation_h", g.dilation_h, 1);
  check_parameter("dilation_w", g.dilation_w, 1);
  check_parameter("pad_h", g.pad_h, 0);
  check_parameter("pad_w", g.pad_w, 0);
  check_parameter("groups", g.groups, 1);
  check_parameter("offset_groups", g.offset_groups, 1);
  check_rank(kOp, "value", value, 4, "(B, H, W, Cin)");
  check_rank(kOp, "offset", offset, 6, "(B, Ho, Wo, offset_groups, K, 2)");
  check_rank(kOp, "weight", weight, 4, "(Cout, Cin/groups, kH, kW)");
  check_operand("value", value, value);
  check_operand("offset", offset, value);
  check_operand("weight", weight, value);
  check_values_type("weight", weight, value);

  const c10::SymInt channels = value.sym_size(3), outs = weight.sym_size(0);
  check_positive(kOp, "value", value, 1, "row");
  check_positive(kOp, "value", value, 2, "column");
  check_positive(kOp, "value", value, 3, "channel");
  check_positive(kOp, "weight", weight, 0, "channel");
  check_positive(kOp, "weight", weight, 2, "row");
  check_positive(kOp, "weight", weight, 3, "column");
  check_divides("value's channels", channels, "groups", g.groups);
  check_divides("value's channels", channels, "offset_groups", g.offset_groups);
  check_divides("weight's output channels", outs, "groups", g.groups);
  check_size(kOp, "weight", weight, 1, channels / g.groups, "channels of value / groups");

  const c10::SymInt points = weight.sym_size(2) * weight.sym_size(3);
  const c10::SymInt rows =
      output_size(value.sym_size(1), weight.sym_size(2), g.stride_h, g.pad_h, g.dilation_h);
  const c10::SymInt columns =
      output_size(value.sym_size(2), weight.sym_size(3), g.stride_w, g.pad_w, g.dilation_w);
  check_size(kOp, "offset", offset, 0, value.sym_size(0), "batch of value");
  if (row0) {
    check_parameter("row0", *row0, 0);
    TORCH_SYM_CHECK((offset.sym_size(1) + *row0).sym_le(rows), kOp, ": offset's rows from row0, ",
                    *row0, ", to ", offset.sym_size(1) + *row0, " must be among the ", rows,
                    " of the output");
  } else {
    check_size(kOp, "offset", offset, 1, rows, "rows of the output");
  }
  check_size(kOp, "offset", offset, 2, columns, "columns of the output");
  check_size(kOp, "offset", offset, 3, g.offset_groups, "offset_groups");
  check_size(kOp, "offset", offset, 4, points, "points of weight's kernel");
  check_size(kOp, "offset", offset, 5, 2, "dy and dx");
  if (mask) {
    check_rank(kOp, "mask", *mask, 5, "(B, Ho, Wo, offset_groups, K)");
    check_operand("mask", *mask, value);
    for (int64_t d = 0; d < 5; ++d) {
      check_size(kOp, "mask", *mask, d, offset.sym_size(d), "as offset");
    }
  }
  if (bias) {
    check_rank(kOp, "bias", *bias, 1, "(Cout)");
    check_operand("bias", *bias, value);
    check_values_type("bias", *bias, value);
    check_size(kOp, "bias", *bias, 0, outs, "output channels of weight");
  }
}

void check_conv_operands(const at::Tensor& grad_output, const at::Tensor& value,
                         const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                         const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                         const ConvGeometry& geometry) {
  check_conv_operands(value, offset, mask, weight, bias, geometry);
  check_rank(kOp, "grad_output", grad_output, 4, "(B, Ho, Wo, Cout)");
  check_operand("grad_output", grad_output, value);
  check_values_type("grad_output", grad_output, value);
  for (int64_t d = 0; d < 3; ++d) {
    check_size(kOp, "grad_output", grad_output, d, offset.sym_size(d), "as offset");
  }
  check_size(kOp, "grad_output", grad_output, 3, weight.sym_size(0), "output channels of weight");
}

void check_conv_limits(const at::Tensor& value, const at::Tensor& weight) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(value.size(1) <= kMost / value.size(2), kOp,
              ": value must have less than 2^31 pixels ", "a picture, but is ", value.sizes());
  TORCH_CHECK(
      value.size(3) < kMost && weight.size(0) < kMost && weight.size(2) < kMost / weight.size(3),
      kOp, ": value's and weight's channels, and the kernel's points, must be less than ",
      "2^31, but value is ", value.sizes(), " and weight ", weight.sizes());
}

at::Tensor conv_weight_matrices(const at::Tensor& weight, int64_t groups, at::ScalarType type) {
  const int64_t outs = weight.size(0) / groups, channels = weight.size(1);
  const int64_t points = weight.size(2) * weight.size(3);
  return weight.to(type)
      .reshape({groups, outs, channels, points})
      .permute({0, 3, 2, 1})
      .reshape({groups, points * channels, outs})
      .contiguous();
}

at::Tensor conv_weight_from_matrices(const at::Tensor& matrices, const at::Tensor& weight) {
  const int64_t groups = matrices.size(0), outs = matrices.size(2), channels = weight.size(1);
  return matrices.reshape({groups, weight.size(2) * weight.size(3), channels, outs})
      .permute({0, 3, 2, 1})
      .reshape(weight.sizes())
      .to(weight.scalar_type());
}

}  // namespace deform::ops
