// Schemas of single-scale deformable sampling, and which function answers for which key.
#include "attn/attn.h"

#include <torch/library.h>

#include <string>

#include "select/select.h"

namespace deform::ops {
namespace {

// The public operator on CUDA: whether the policy takes kernels compiled at run time, not ahead.
bool selects_jit(const at::Tensor& value, const AttnParameters& p, bool training) {
  return select_backend(Op::kAttn, value, p.group_dims, 1, p.points(), training) == Backend::kJit;
}

at::Tensor attn_selected(const at::Tensor& value, const at::Tensor& offset_mask,
                         const AttnParameters& p) {
  const auto run = selects_jit(value, p, /*training=*/false) ? attn_jit : attn_cuda;
  return run(value, offset_mask, p);
}

AttnGradients attn_backward_selected(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& offset_mask, const AttnParameters& p) {
  const auto run =
      selects_jit(value, p, /*training=*/true) ? attn_backward_jit : attn_backward_cuda;
  return run(grad_output, value, offset_mask, p);
}

using Forward = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const AttnParameters&);
using Backward = AttnGradients (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const AttnParameters&);

// Functions as the schemas have them: `Options` are the arguments that a namespace adds, in order
// the last members of AttnParameters.
template <bool softmax, class... Options>
struct Bound {
  template <Forward forward_of>
  static at::Tensor forward(const at::Tensor& value, const at::Tensor& offset_mask,
                            int64_t kernel_h, int64_t kernel_w, int64_t stride_h, int64_t stride_w,
                            int64_t pad_h, int64_t pad_w, int64_t dilation_h, int64_t dilation_w,
                            int64_t groups, int64_t group_dims, double spread, bool drop_center,
                            Options... options) {
    return forward_of(value, offset_mask,
                      {kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w,
                       groups, group_dims, spread, drop_center, softmax, options...});
  }

  template <Backward backward_of>
  static AttnGradients backward(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset_mask, int64_t kernel_h, int64_t kernel_w,
                                int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                                int64_t dilation_h, int64_t dilation_w, int64_t groups,
                                int64_t group_dims, double spread, bool drop_center,
                                Options... options) {
    return backward_of(grad_output, value, offset_mask,
                       {kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h,
                        dilation_w, groups, group_dims, spread, drop_center, softmax, options...});
  }
};

void define(torch::Library& library, const std::string& options = "") {
  const std::string operands =
      "Tensor value, Tensor offset_mask, int kernel_h, int kernel_w, int stride_h, int stride_w, "
      "int pad_h, int pad_w, int dilation_h, int dilation_w, int groups, int group_dims, "
      "float spread, bool drop_center" +
      options;
  for (const std::string name : {"attn", "attn_softmax"}) {
    library.def((name + "(" + operands + ") -> Tensor").c_str(), {at::Tag::pt2_compliant_tag});
    library.def(
        (name + "_backward(Tensor grad_output, " + operands + ") -> (Tensor, Tensor)").c_str(),
        {at::Tag::pt2_compliant_tag});
  }
}

template <Forward forward, Backward backward, class... Options>
void implement(torch::Library& library) {
  using Plain = Bound<false, Options...>;
  using Softmax = Bound<true, Options...>;
  library.impl("attn", TORCH_FN((Plain::template forward<forward>)));
  library.impl("attn_softmax", TORCH_FN((Softmax::template forward<forward>)));
  library.impl("attn_backward", TORCH_FN((Plain::template backward<backward>)));
  library.impl("attn_softmax_backward", TORCH_FN((Softmax::template backward<backward>)));
}

template <AttnNamespace where, class... Options>
void implement_autograd(torch::Library& library) {
  implement<attn_autograd<where>, attn_backward_autograd<where>, Options...>(library);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform, library) { define(library); }
TORCH_LIBRARY_IMPL(deform, CPU, library) { implement<attn_cpu, attn_backward_cpu>(library); }
TORCH_LIBRARY_IMPL(deform, CUDA, library) {
  implement<attn_selected, attn_backward_selected>(library);
}
TORCH_LIBRARY_IMPL(deform, Meta, library) { implement<attn_meta, attn_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform, Autograd, library) {
  implement_autograd<AttnNamespace::kDeform>(library);
}
TORCH_LIBRARY_IMPL(deform, FuncTorchBatched, library) {
  implement<attn_eager, attn_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_cpu, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_cpu, CPU, library) { implement<attn_cpu, attn_backward_cpu>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Meta, library) { implement<attn_meta, attn_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Autograd, library) {
  implement_autograd<AttnNamespace::kCpu>(library);
}
TORCH_LIBRARY_IMPL(deform_cpu, FuncTorchBatched, library) {
  implement<attn_eager, attn_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_cuda, library) { define(library, ", bool fp32acc=True"); }
TORCH_LIBRARY_IMPL(deform_cuda, CUDA, library) {
  implement<attn_cuda, attn_backward_cuda, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, Meta, library) {
  implement<attn_meta, attn_backward_meta, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, Autograd, library) {
  implement_autograd<AttnNamespace::kCuda, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, FuncTorchBatched, library) {
  implement<attn_eager, attn_backward_eager, bool>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_jit, library) { define(library, ", bool fp32acc=True"); }
TORCH_LIBRARY_IMPL(deform_jit, CUDA, library) {
  implement<attn_jit, attn_backward_jit, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, Meta, library) {
  implement<attn_meta, attn_backward_meta, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, Autograd, library) {
  implement_autograd<AttnNamespace::kJit, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, FuncTorchBatched, library) {
  implement<attn_eager, attn_backward_eager, bool>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_eager, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_eager, CompositeImplicitAutograd, library) {
  implement<attn_eager, attn_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_reference, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_reference, CPU, library) {
  implement<attn_reference, attn_backward_reference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, CUDA, library) {
  implement<attn_reference, attn_backward_reference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, Meta, library) {
  implement<attn_meta, attn_backward_meta>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, Autograd, library) {
  implement_autograd<AttnNamespace::kReference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, FuncTorchBatched, library) {
  implement<attn_eager, attn_backward_eager>(library);
}

}  // namespace deform::ops
