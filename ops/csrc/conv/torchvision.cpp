// torchvision's deform_conv2d on top of the public operator.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/Exception.h>

#include <array>

#include "common/checks.h"
#include "conv/conv.h"

namespace deform::ops {
namespace {

constexpr const char* kOp = "deform_conv2d";

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                             const at::Tensor&, const std::optional<at::Tensor>&, int64_t, int64_t,
                             int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);

std::array<int64_t, 2> pair(const char* name, c10::SymIntArrayRef sizes) {
  TORCH_CHECK(sizes.size() == 2, kOp, ": ", name, " must be two numbers, h and w, but is ",
              sizes.size());
  return {sizes[0].guard_int(__FILE__, __LINE__), sizes[1].guard_int(__FILE__, __LINE__)};
}

// How many times `unit` the channels of an operand are.
int64_t multiple(const char* name, const at::Tensor& tensor, const c10::SymInt& unit,
                 const char* meaning) {
  const c10::SymInt channels = tensor.sym_size(1);
  TORCH_SYM_CHECK((channels % unit).sym_eq(0).sym_and(channels.sym_ge(unit)), kOp, ": ", name,
                  " must have a multiple of ", unit, " (", meaning, ") channels, but has ",
                  channels, ": ", tensor.sym_sizes());
  return (channels / unit).guard_int(__FILE__, __LINE__);
}

}  // namespace

at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& offset,
                         const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                         c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                         c10::SymIntArrayRef dilation, const std::optional<at::Tensor>& mask) {
  check_rank(kOp, "input", input, 4, "(B, Cin, H, W)");
  check_rank(kOp, "offset", offset, 4, "(B, 2*offset_groups*kH*kW, Ho, Wo)");
  check_rank(kOp, "weight", weight, 4, "(Cout, Cin/groups, kH, kW)");
  check_positive(kOp, "weight", weight, 1, "input channel");
  check_positive(kOp, "weight", weight, 2, "row");
  check_positive(kOp, "weight", weight, 3, "column");
  const std::array<int64_t, 2> strides = pair("stride", stride), pads = pair("padding", padding);
  const std::array<int64_t, 2> dilations = pair("dilation", dilation);
  const c10::SymInt points = weight.sym_size(2) * weight.sym_size(3);
  const int64_t offset_groups = multiple("offset", offset, 2 * points, "2 * kH * kW");
  const int64_t groups = multiple("input", input, weight.sym_size(1), "weight's input channels");
  // (B, og * K * 2, Ho, Wo) to (B, Ho, Wo, og, K, 2)
  const at::Tensor offsets =
      offset.permute({0, 2, 3, 1})
          .unflatten_symint(3, {c10::SymInt(offset_groups), points, c10::SymInt(2)});
  std::optional<at::Tensor> masks;
  if (mask) {
    check_rank(kOp, "mask", *mask, 4, "(B, offset_groups*kH*kW, Ho, Wo)");
    check_size(kOp, "mask", *mask, 1, offset_groups * points, "offset_groups * kH * kW");
    masks = mask->permute({0, 2, 3, 1}).unflatten_symint(3, {c10::SymInt(offset_groups), points});
  }
  static const auto conv =
      c10::Dispatcher::singleton().findSchemaOrThrow("deform::conv", "").typed<Signature>();
  return conv
      .call(input.permute({0, 2, 3, 1}), offsets, masks, weight, bias, strides[0], strides[1],
            pads[0], pads[1], dilations[0], dilations[1], groups, offset_groups)
      .permute({0, 3, 1, 2});
}

}  // namespace deform::ops
