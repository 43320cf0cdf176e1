// Schemas of multi-scale deformable attention, and which function answers for which key.
#include "msda/msda.h"

#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <string>

namespace deform::ops {
namespace {

using Backend = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, bool);

// The backend with its last argument bound, as the schema has it.
template <Backend backend, bool softmax>
at::Tensor bound(const at::Tensor& value, const at::Tensor& spatial_shapes,
                 const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                 const at::Tensor& attention_weights) {
  return backend(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                 softmax);
}

void define(torch::Library& library) {
  const std::string operands =
      "(Tensor value, Tensor spatial_shapes, Tensor level_start_index, "
      "Tensor sampling_locations, Tensor attention_weights) -> Tensor";
  for (const char* name : {"msda", "msda_softmax"}) {
    library.def((name + operands).c_str(), {at::Tag::pt2_compliant_tag});
  }
}

template <Backend backend>
void implement(torch::Library& library) {
  library.impl("msda", TORCH_FN((bound<backend, false>)));
  library.impl("msda_softmax", TORCH_FN((bound<backend, true>)));
}

// Backends called by name have no derivative yet: say so instead of dropping the gradient.
void refuse_derivative(torch::Library& library) {
  library.impl("msda", torch::autograd::autogradNotImplementedFallback());
  library.impl("msda_softmax", torch::autograd::autogradNotImplementedFallback());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform, library) { define(library); }
TORCH_LIBRARY_IMPL(deform, CPU, library) { implement<msda_cpu>(library); }
TORCH_LIBRARY_IMPL(deform, CUDA, library) { implement<msda_cuda>(library); }
TORCH_LIBRARY_IMPL(deform, Meta, library) { implement<msda_meta>(library); }
TORCH_LIBRARY_IMPL(deform, Autograd, library) { implement<msda_autograd>(library); }
TORCH_LIBRARY_IMPL(deform, FuncTorchBatched, library) { implement<msda_eager>(library); }

TORCH_LIBRARY_FRAGMENT(deform_cpu, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_cpu, CPU, library) { implement<msda_cpu>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Meta, library) { implement<msda_meta>(library); }
TORCH_LIBRARY_IMPL(deform_cpu, Autograd, library) { refuse_derivative(library); }

TORCH_LIBRARY_FRAGMENT(deform_cuda, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_cuda, CUDA, library) { implement<msda_cuda>(library); }
TORCH_LIBRARY_IMPL(deform_cuda, Meta, library) { implement<msda_meta>(library); }
TORCH_LIBRARY_IMPL(deform_cuda, Autograd, library) { refuse_derivative(library); }

TORCH_LIBRARY_FRAGMENT(deform_eager, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_eager, CompositeImplicitAutograd, library) {
  implement<msda_eager>(library);
}

TORCH_LIBRARY_FRAGMENT(deform_reference, library) { define(library); }
TORCH_LIBRARY_IMPL(deform_reference, CPU, library) { implement<msda_reference>(library); }
TORCH_LIBRARY_IMPL(deform_reference, CUDA, library) { implement<msda_reference>(library); }
TORCH_LIBRARY_IMPL(deform_reference, Meta, library) { implement<msda_meta>(library); }
TORCH_LIBRARY_IMPL(deform_reference, Autograd, library) { refuse_derivative(library); }

}  // namespace deform::ops
