// Schemas of deformable convolution, and which function answers for which key.
#include "conv/conv.h"

#include <torch/library.h>

#include <string>

#include "conv/operands.h"
#include "select/select.h"

namespace deform::ops {
namespace {

// The public operator on CUDA: whether the policy takes kernels compiled at run time, not ahead.
bool selects_jit(const at::Tensor& value, const at::Tensor& weight, const ConvGeometry& geometry,
                 bool training) {
  if (value.dim() != 4 || weight.dim() != 4) return false;  // conv_cuda says what is wrong
  const int64_t channels = value.size(3) / std::max<int64_t>(1, geometry.offset_groups);
  return select_backend(Op::kConv, value, channels, 1, weight.size(2) * weight.size(3), training) ==
         Backend::kJit;
}

at::Tensor conv_selected(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  const auto run = selects_jit(value, weight, geometry, /*training=*/false) ? conv_jit : conv_cuda;
  return run(value, offset, mask, weight, bias, geometry);
}

ConvGradients conv_backward_selected(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& offset,
                                     const std::optional<at::Tensor>& mask,
                                     const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias,
                                     const ConvGeometry& geometry) {
  const auto run = selects_jit(value, weight, geometry, /*training=*/true) ? conv_backward_jit
                                                                           : conv_backward_cuda;
  return run(grad_output, value, offset, mask, weight, bias, geometry);
}

using Forward = at::Tensor (*)(const at::Tensor&, const at::Tensor&,
                               const std::optional<at::Tensor>&, const at::Tensor&,
                               const std::optional<at::Tensor>&, const ConvGeometry&);
using Backward = ConvGradients (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, const ConvGeometry&);

// Functions as the schemas have them.
template <Forward function>
at::Tensor forward(const at::Tensor& value, const at::Tensor& offset,
                   const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                   const std::optional<at::Tensor>& bias, int64_t stride_h, int64_t stride_w,
                   int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                   int64_t groups, int64_t offset_groups) {
  return function(
      value, offset, mask, weight, bias,
      {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups});
}

template <Backward function>
ConvGradients backward(const at::Tensor& grad_output, const at::Tensor& value,
                       const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                       const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                       int64_t dilation_h, int64_t dilation_w, int64_t groups,
                       int64_t offset_groups) {
  return function(
      grad_output, value, offset, mask, weight, bias,
      {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups});
}

at::Tensor eager_tiled(const at::Tensor& value, const at::Tensor& offset,
                       const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, int64_t stride_h, int64_t stride_w,
                       int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                       int64_t groups, int64_t offset_groups, std::optional<int64_t> max_bytes,
                       int64_t row0, bool lean) {
  return conv_eager(
      value, offset, mask, weight, bias,
      {stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups},
      {max_bytes, row0, lean});
}

const std::string kOperands =
    "Tensor value, Tensor offset, Tensor? mask, Tensor weight, Tensor? bias, int stride_h, "
    "int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, "
    "int offset_groups";

void define_backward(torch::Library& library) {
  library.def(("conv_backward(Tensor grad_output, " + kOperands +
               ") -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
                  .c_str(),
              {at::Tag::pt2_compliant_tag});
}

void define(torch::Library& library) {
  library.def(("conv(" + kOperands + ") -> Tensor").c_str(), {at::Tag::pt2_compliant_tag});
  define_backward(library);
}

template <Forward function, Backward backward_function>
void implement(torch::Library& library) {
  library.impl("conv", TORCH_FN((forward<function>)));
  library.impl("conv_backward", TORCH_FN((backward<backward_function>)));
}

template <ConvNamespace where>
void implement_autograd(torch::Library& library) {
  implement<conv_autograd<where>, conv_backward_autograd<where>>(library);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform, library) {
  define(library);
  library.def(
      "deform_conv2d(Tensor input, Tensor offset, Tensor weight, Tensor? bias=None, "
      "SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], "
      "Tensor? mask=None) -> Tensor",
      {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(deform, CompositeImplicitAutograd, library) {
  library.impl("deform_conv2d", TORCH_FN(deform_conv2d));
}
TORCH_LIBRARY_IMPL(deform, CPU, library) { implement<conv_cpu, conv_backward_cpu>(library); }
TORCH_LIBRARY_IMPL(deform, CUDA, library) {
  implement<conv_selected, conv_backward_selected>(library);
}
TORCH_LIBRARY_IMPL(deform, Meta, library) { implement<conv_meta, conv_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform, Autograd, library) {
  implement_autograd<ConvNamespace::kDeform>(library);
}
TORCH_LIBRARY_IMPL(deform, FuncTorchBatched, library) {
  implement<conv_eager, conv_backward_eager>(library);
}
TORCH_LIBRARY_IMPL(deform, AutocastCPU, library) {
  library.impl("conv", TORCH_FN((forward<conv_autocast<c10::DeviceType::CPU>>)));
}
TORCH_LIBRARY_IMPL(deform, AutocastCUDA, library) {
  library.impl("conv", TORCH_FN((forward<conv_autocast<c10::DeviceType::CUDA>>)));
}

TORCH_LIBRARY_FRAGMENT(deform_cpu, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_cpu, CPU, library) { implement<conv_cpu, conv_backward_cpu>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Meta, library) { implement<conv_meta, conv_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Autograd, library) {
  implement_autograd<ConvNamespace::kCpu>(library);
}
TORCH_LIBRARY_IMPL(deform_cpu, FuncTorchBatched, library) {
  implement<conv_eager, conv_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_cuda, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_cuda, CUDA, library) {
  implement<conv_cuda, conv_backward_cuda>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, Meta, library) {
  implement<conv_meta, conv_backward_meta>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, Autograd, library) {
  implement_autograd<ConvNamespace::kCuda>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, FuncTorchBatched, library) {
  implement<conv_eager, conv_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_jit, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_jit, CUDA, library) { implement<conv_jit, conv_backward_jit>(library); }
TORCH_LIBRARY_IMPL(deform_jit, Meta, library) { implement<conv_meta, conv_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform_jit, Autograd, library) {
  implement_autograd<ConvNamespace::kJit>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, FuncTorchBatched, library) {
  implement<conv_eager, conv_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_eager, library) {
  library.def(
      ("conv(" + kOperands + ", int? max_bytes=None, int row0=0, bool lean=False) -> Tensor")
          .c_str(),
      {at::Tag::pt2_compliant_tag});
  define_backward(library);
}
TORCH_LIBRARY_IMPL(deform_eager, CompositeImplicitAutograd, library) {
  library.impl("conv", TORCH_FN(eager_tiled));
  library.impl("conv_backward", TORCH_FN((backward<conv_backward_eager>)));
}

TORCH_LIBRARY_FRAGMENT(deform_reference, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_reference, CPU, library) {
  implement<conv_reference, conv_backward_reference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, CUDA, library) {
  implement<conv_reference, conv_backward_reference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, Meta, library) {
  implement<conv_meta, conv_backward_meta>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, Autograd, library) {
  implement_autograd<ConvNamespace::kReference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, FuncTorchBatched, library) {
  implement<conv_eager, conv_backward_eager>(library);
}

}  // namespace deform::ops
