// Multi-scale deformable attention: one function for each backend, all with the same operands.
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
// them, add nothing. Every function throws c10::Error on operands that don't fit.
#pragma once

#include <ATen/core/Tensor.h>

namespace deform::ops {

// Vectorised and threaded; checks the level table's contents. No derivative.
at::Tensor msda_cpu(const at::Tensor& value, const at::Tensor& spatial_shapes,
                    const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                    const at::Tensor& attention_weights, bool softmax);

// Runs on the current stream of value's device, without waiting. A level that doesn't lie inside
// value samples 0; DEFORM_VALIDATE=1 makes it an error. No derivative.
at::Tensor msda_cuda(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, bool softmax);

// Differentiable tensor operations on any device, traceable. A level that doesn't lie inside value
// samples 0, or is an error where the table can be read on the host.
at::Tensor msda_eager(const at::Tensor& value, const at::Tensor& spatial_shapes,
                      const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                      const at::Tensor& attention_weights, bool softmax);

// Plain loops in double precision on the host, whatever the operands' device and type. For tests.
at::Tensor msda_reference(const at::Tensor& value, const at::Tensor& spatial_shapes,
                          const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                          const at::Tensor& attention_weights, bool softmax);

// Only the shape, type and device of the result; sizes may be symbolic.
at::Tensor msda_meta(const at::Tensor& value, const at::Tensor& spatial_shapes,
                     const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, bool softmax);

// The backend of the operands' device; where a derivative is wanted, msda_eager.
at::Tensor msda_autograd(const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights, bool softmax);

}  // namespace deform::ops
