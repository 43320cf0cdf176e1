// Multi-scale deformable attention: one function for each backend and direction, all with the same
// operands.
//
//   value              (B, S, G, D)        float32, float16, bfloat16 or float64
//   spatial_shapes     (L, 2)              int32 or int64: height and width of each level
//   level_start_index  (L)                 int32 or int64: first row of each level in value
//   sampling_locations (B, Q, G, L, K, 2)  x, y in [0, 1], any of the float types
//   attention_weights  (B, Q, G, L*K) or (B, Q, G, L, K), any of the float types; with `softmax`
//                      logits, normalised over L*K first
//   result             (B, Q, G*D)         of value's type
//
// A point is at pixel location * size - 0.5 of its level and is read bilinearly, with zeros outside
// the level. A point counts if -1 < x < width and -1 < y < height; others, NaN and infinity among
// them, add nothing.
//
// A backward function gives the gradients of value, sampling_locations and attention_weights, in
// their shapes and types. A point that doesn't count has gradient 0, but for its logit's. At a
// pixel's centre, where the derivative jumps, a location gets the one of the cell to the right and
// below.
//
// Every function throws c10::Error on operands that don't fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>

namespace deform::ops {

struct MsdaOptions {
  bool softmax = false;
  // Sum a half-precision value's gradient in float32. False: in its own type, where the GPU has
  // atomic additions of both half-precision types (SM 9.0). Backward on CUDA only.
  bool fp32acc = true;

  const char* name() const { return softmax ? "msda_softmax" : "msda"; }
};

using MsdaGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// Vectorised and threaded; check the level table's contents. Backward: bit for bit the same on
// every run, with any number of threads.
at::Tensor msda_cpu(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, const MsdaOptions& options);
MsdaGradients msda_backward_cpu(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& spatial_shapes,
                                const at::Tensor& level_start_index,
                                const at::Tensor& sampling_locations,
                                const at::Tensor& attention_weights, const MsdaOptions& options);

// Run on the current stream of value's device, without waiting. A level that doesn't lie inside
// value samples 0; DEFORM_VALIDATE=1 makes it an error. Backward adds up value's gradient by atomic
// additions; where deterministic algorithms are asked for, by msda_backward_eager.
at::Tensor msda_cuda(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, const MsdaOptions& options);
MsdaGradients msda_backward_cuda(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& spatial_shapes,
                                 const at::Tensor& level_start_index,
                                 const at::Tensor& sampling_locations,
                                 const at::Tensor& attention_weights, const MsdaOptions& options);

// The same with kernels that are compiled at run time for the call's sizes and types (jit/).
at::Tensor msda_jit(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, const MsdaOptions& options);
MsdaGradients msda_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& spatial_shapes,
                                const at::Tensor& level_start_index,
                                const at::Tensor& sampling_locations,
                                const at::Tensor& attention_weights, const MsdaOptions& options);

// Differentiable tensor operations on any device, traceable. A level that doesn't lie inside value
// samples 0, or is an error where the table can be read on the host.
at::Tensor msda_eager(const at::Tensor& value, const at::Tensor& spatial_shapes,
                      const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                      const at::Tensor& attention_weights, const MsdaOptions& options);
MsdaGradients msda_backward_eager(const at::Tensor& grad_output, const at::Tensor& value,
                                  const at::Tensor& spatial_shapes,
                                  const at::Tensor& level_start_index,
                                  const at::Tensor& sampling_locations,
                                  const at::Tensor& attention_weights, const MsdaOptions& options);

// Plain loops in double precision on the host, whatever the operands' device and type. For tests.
at::Tensor msda_reference(const at::Tensor& value, const at::Tensor& spatial_shapes,
                          const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                          const at::Tensor& attention_weights, const MsdaOptions& options);
MsdaGradients msda_backward_reference(const at::Tensor& grad_output, const at::Tensor& value,
                                      const at::Tensor& spatial_shapes,
                                      const at::Tensor& level_start_index,
                                      const at::Tensor& sampling_locations,
                                      const at::Tensor& attention_weights,
                                      const MsdaOptions& options);

// Only shapes, types and device of the results; sizes may be symbolic.
at::Tensor msda_meta(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, const MsdaOptions& options);
MsdaGradients msda_backward_meta(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& spatial_shapes,
                                 const at::Tensor& level_start_index,
                                 const at::Tensor& sampling_locations,
                                 const at::Tensor& attention_weights, const MsdaOptions& options);

// The namespaces whose operators have a derivative of their own.
enum class MsdaNamespace { kDeform, kCpu, kCuda, kJit, kReference };

// The namespace's operator below autograd; where a derivative is wanted, a node whose backward is
// the namespace's backward operator. Derivatives of higher order, forward-mode ones and those under
// torch.func are the eager form's.
template <MsdaNamespace where>
at::Tensor msda_autograd(const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights, const MsdaOptions& options);
template <MsdaNamespace where>
MsdaGradients msda_backward_autograd(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& spatial_shapes,
                                     const at::Tensor& level_start_index,
                                     const at::Tensor& sampling_locations,
                                     const at::Tensor& attention_weights,
                                     const MsdaOptions& options);

}  // namespace deform::ops
