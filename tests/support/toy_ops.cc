// An op library for tests of the engine: toy::scale(x, factor) = x · factor for float32 on the CPU,
// which stays one node of a compiled network, as the operators of a real op library do.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace {

at::Tensor Scale(const at::Tensor& x, double factor) {
  TORCH_CHECK(x.scalar_type() == at::kFloat, "x must be float32");
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  const float* const from = in.const_data_ptr<float>();
  float* const to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < in.numel(); ++i) to[i] = from[i] * static_cast<float>(factor);
  return out;
}

at::Tensor ScaleMeta(const at::Tensor& x, double) { return at::empty_like(x.contiguous()); }

}  // namespace

TORCH_LIBRARY(toy, library) {
  library.def("scale(Tensor x, float factor) -> Tensor", {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(toy, CPU, library) { library.impl("scale", &Scale); }
TORCH_LIBRARY_IMPL(toy, Meta, library) { library.impl("scale", &ScaleMeta); }
