// Deformable convolution: one function for each backend and direction, all with the same operands.
//
//   value   (B, H, W, Cin)              float32, float16, bfloat16 or float64
//   offset  (B, Ho, Wo, og, K, 2)       any of the float types: dy, dx of each point of each offset
//                                       group, in pixels
//   mask    (B, Ho, Wo, og, K)          any of the float types, scales the samples (v2); or nothing
//                                       (v1)
//   weight  (Cout, Cin/groups, kH, kW)  of value's type
//   bias    (Cout)                      of value's type, or nothing
//   result  (B, Ho, Wo, Cout)           of value's type
//
// K = kH * kW points, row by row. Point (i, j) of output (oy, ox) is, in pixels of value, at
//
//   y = oy * stride_h - pad_h + i * dilation_h + dy
//   x = ox * stride_w - pad_w + j * dilation_w + dx
//
// It is read bilinearly, with zeros outside the map, and counts if -1 < y < H and -1 < x < W;
// others, NaN and infinity among them, add nothing. Ho and Wo are those of a convolution of this
// kernel; 0 where it has no place. Sums are in float32, in float64 for float64.
//
// A backward function gives the gradients of value, offset, mask, weight and bias, in their types;
// of an absent operand a tensor of shape (0). A point that doesn't count has gradient 0. At a
// pixel's centre, where the derivative jumps, dy and dx get the one of the cell to the right and
// below.
//
// Every function throws c10::Error on operands that don't fit.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymIntArrayRef.h>

#include <cstdint>
#include <optional>
#include <tuple>

namespace deform::ops {

struct ConvGeometry {
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
};

using ConvGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Vectorised and threaded; scratch is one tile of output pixels for each thread, in backward one.
// Both directions: bit for bit the same on every run with the same number of threads.
at::Tensor conv_cpu(const at::Tensor& value, const at::Tensor& offset,
                    const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
ConvGradients conv_backward_cpu(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                const ConvGeometry& geometry);

// Run on the current stream of value's device, without waiting and without a buffer of samples.
// Backward adds up the gradients of value and weight by atomic additions; where deterministic
// algorithms are asked for, by conv_backward_eager.
at::Tensor conv_cuda(const at::Tensor& value, const at::Tensor& offset,
                     const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
ConvGradients conv_backward_cuda(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 const ConvGeometry& geometry);

// The same with kernels that are compiled at run time for the call's sizes and types (jit/).
at::Tensor conv_jit(const at::Tensor& value, const at::Tensor& offset,
                    const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
ConvGradients conv_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                const ConvGeometry& geometry);

// How the eager form may spend memory.
struct ConvTiling {
  // All scratch together, the result aside, stays within these bytes: the output is computed in
  // tiles of rows, and of columns where one row is too much. Nothing: in one.
  std::optional<int64_t> max_bytes;
  // offset and mask hold output rows [row0, row0 + their height) only, and so does the result.
  int64_t row0 = 0;
  // Only minimum and maximum arithmetic and embedding look-ups, two operations a corner beside
  // arithmetic, which converters for mobile runtimes lower. H * W * og at most 2^24.
  bool lean = false;
};

// Differentiable tensor operations on any device, traceable, sizes symbolic or not.
at::Tensor conv_eager(const at::Tensor& value, const at::Tensor& offset,
                      const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
at::Tensor conv_eager(const at::Tensor& value, const at::Tensor& offset,
                      const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const ConvGeometry& geometry,
                      const ConvTiling& tiling);
ConvGradients conv_backward_eager(const at::Tensor& grad_output, const at::Tensor& value,
                                  const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                  const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                  const ConvGeometry& geometry);

// Plain loops in double precision on the host, whatever the operands' device and type. For tests.
at::Tensor conv_reference(const at::Tensor& value, const at::Tensor& offset,
                          const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
ConvGradients conv_backward_reference(const at::Tensor& grad_output, const at::Tensor& value,
                                      const at::Tensor& offset,
                                      const std::optional<at::Tensor>& mask,
                                      const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias,
                                      const ConvGeometry& geometry);

// Only shapes, types and device of the results; sizes may be symbolic.
at::Tensor conv_meta(const at::Tensor& value, const at::Tensor& offset,
                     const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                     const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
ConvGradients conv_backward_meta(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                 const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                 const ConvGeometry& geometry);

// The namespaces whose operators have a derivative of their own.
enum class ConvNamespace { kDeform, kCpu, kCuda, kJit, kReference };

// The namespace's operator below autograd; where a derivative is wanted, a node whose backward is
// the namespace's backward operator. Derivatives of higher order, forward-mode ones and those under
// torch.func are the eager form's.
template <ConvNamespace where>
at::Tensor conv_autograd(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);
template <ConvNamespace where>
ConvGradients conv_backward_autograd(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& offset,
                                     const std::optional<at::Tensor>& mask,
                                     const at::Tensor& weight,
                                     const std::optional<at::Tensor>& bias,
                                     const ConvGeometry& geometry);

// The public operator in the type that autocast is on for: value, mask, weight and bias are cast,
// offsets keep their precision.
template <c10::DeviceType device>
at::Tensor conv_autocast(const at::Tensor& value, const at::Tensor& offset,
                         const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                         const std::optional<at::Tensor>& bias, const ConvGeometry& geometry);

// torchvision's deform_conv2d: its argument order, and maps as (B, C, H, W); the result's memory is
// channels last. Groups are what the shapes of input, weight and offset say.
at::Tensor deform_conv2d(const at::Tensor& input, const at::Tensor& offset,
                         const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                         c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                         c10::SymIntArrayRef dilation, const std::optional<at::Tensor>& mask);

}  // namespace deform::ops
