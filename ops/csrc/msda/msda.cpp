// Schemas of multi-scale deformable attention, and which function answers for which key.
#include "msda/msda.h"

#include <torch/library.h>

#include <string>

#include "select/select.h"

namespace deform::ops {
namespace {

// The public operator on CUDA: whether the policy takes kernels compiled at run time, not ahead.
bool selects_jit(const at::Tensor& value, const at::Tensor& sampling_locations, bool training) {
  // Of wrong operands msda_cuda says what is wrong.
  if (value.dim() != 4 || sampling_locations.dim() != 6) return false;
  return select_backend(Op::kMsda, value, value.size(3), sampling_locations.size(3),
                        sampling_locations.size(4), training) == Backend::kJit;
}

at::Tensor msda_selected(const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights, const MsdaOptions& options) {
  const auto run =
      selects_jit(value, sampling_locations, /*training=*/false) ? msda_jit : msda_cuda;
  return run(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
             options);
}

MsdaGradients msda_backward_selected(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& spatial_shapes,
                                     const at::Tensor& level_start_index,
                                     const at::Tensor& sampling_locations,
                                     const at::Tensor& attention_weights,
                                     const MsdaOptions& options) {
  const auto run = selects_jit(value, sampling_locations, /*training=*/true) ? msda_backward_jit
                                                                             : msda_backward_cuda;
  return run(grad_output, value, spatial_shapes, level_start_index, sampling_locations,
             attention_weights, options);
}

using Forward = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, const MsdaOptions&);
using Backward = MsdaGradients (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const MsdaOptions&);

// Functions as the schemas have them: `Options` are the arguments that a namespace adds, in order
// the last members of MsdaOptions.
template <bool softmax, class... Options>
struct Bound {
  template <Forward function>
  static at::Tensor forward(const at::Tensor& value, const at::Tensor& spatial_shapes,
                            const at::Tensor& level_start_index,
                            const at::Tensor& sampling_locations,
                            const at::Tensor& attention_weights, Options... options) {
    return function(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                    {softmax, options...});
  }

  template <Backward function>
  static MsdaGradients backward(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& spatial_shapes,
                                const at::Tensor& level_start_index,
                                const at::Tensor& sampling_locations,
                                const at::Tensor& attention_weights, Options... options) {
    return function(grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                    attention_weights, {softmax, options...});
  }
};

void define(torch::Library& library, const std::string& options = "") {
  const std::string operands =
      "Tensor value, Tensor spatial_shapes, Tensor level_start_index, "
      "Tensor sampling_locations, Tensor attention_weights" +
      options;
  for (const std::string name : {"msda", "msda_softmax"}) {
    library.def((name + "(" + operands + ") -> Tensor").c_str(), {at::Tag::pt2_compliant_tag});
    library.def(
        (name + "_backward(Tensor grad_output, " + operands + ") -> (Tensor, Tensor, Tensor)")
            .c_str(),
        {at::Tag::pt2_compliant_tag});
  }
}

template <Forward forward, Backward backward, class... Options>
void implement(torch::Library& library) {
  using Plain = Bound<false, Options...>;
  using Softmax = Bound<true, Options...>;
  library.impl("msda", TORCH_FN((Plain::template forward<forward>)));
  library.impl("msda_softmax", TORCH_FN((Softmax::template forward<forward>)));
  library.impl("msda_backward", TORCH_FN((Plain::template backward<backward>)));
  library.impl("msda_softmax_backward", TORCH_FN((Softmax::template backward<backward>)));
}

template <MsdaNamespace where, class... Options>
void implement_autograd(torch::Library& library) {
  implement<msda_autograd<where>, msda_backward_autograd<where>, Options...>(library);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform, library) { define(library); }
TORCH_LIBRARY_IMPL(deform, CPU, library) { implement<msda_cpu, msda_backward_cpu>(library); }
TORCH_LIBRARY_IMPL(deform, CUDA, library) {
  implement<msda_selected, msda_backward_selected>(library);
}
TORCH_LIBRARY_IMPL(deform, Meta, library) { implement<msda_meta, msda_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform, Autograd, library) {
  implement_autograd<MsdaNamespace::kDeform>(library);
}
TORCH_LIBRARY_IMPL(deform, FuncTorchBatched, library) {
  implement<msda_eager, msda_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_cpu, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_cpu, CPU, library) { implement<msda_cpu, msda_backward_cpu>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Meta, library) { implement<msda_meta, msda_backward_meta>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Autograd, library) {
  implement_autograd<MsdaNamespace::kCpu>(library);
}
TORCH_LIBRARY_IMPL(deform_cpu, FuncTorchBatched, library) {
  implement<msda_eager, msda_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_cuda, library) { define(library, ", bool fp32acc=True"); }
TORCH_LIBRARY_IMPL(deform_cuda, CUDA, library) {
  implement<msda_cuda, msda_backward_cuda, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, Meta, library) {
  implement<msda_meta, msda_backward_meta, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, Autograd, library) {
  implement_autograd<MsdaNamespace::kCuda, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_cuda, FuncTorchBatched, library) {
  implement<msda_eager, msda_backward_eager, bool>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_jit, library) { define(library, ", bool fp32acc=True"); }
TORCH_LIBRARY_IMPL(deform_jit, CUDA, library) {
  implement<msda_jit, msda_backward_jit, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, Meta, library) {
  implement<msda_meta, msda_backward_meta, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, Autograd, library) {
  implement_autograd<MsdaNamespace::kJit, bool>(library);
}
TORCH_LIBRARY_IMPL(deform_jit, FuncTorchBatched, library) {
  implement<msda_eager, msda_backward_eager, bool>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_eager, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_eager, CompositeImplicitAutograd, library) {
  implement<msda_eager, msda_backward_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_reference, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_reference, CPU, library) {
  implement<msda_reference, msda_backward_reference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, CUDA, library) {
  implement<msda_reference, msda_backward_reference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, Meta, library) {
  implement<msda_meta, msda_backward_meta>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, Autograd, library) {
  implement_autograd<MsdaNamespace::kReference>(library);
}
TORCH_LIBRARY_IMPL(deform_reference, FuncTorchBatched, library) {
  implement<msda_eager, msda_backward_eager>(library);
}

}  // namespace deform::ops
