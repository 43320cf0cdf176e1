// Single-scale deformable sampling: one function for each backend and direction, all with the same
// operands.
//
//   value        (B, H, W, G*D)        float32, float16, bfloat16 or float64
//   offset_mask  (B, Ho, Wo, >= G*K*3) any of the float types: for each group and point dx, dy and
//                weight; channels past G*K*3 are ignored
//   result       (B, Ho, Wo, G*D)      of value's type
//
// K = kernel_h * kernel_w points stand on a grid, less the one at (kernel_h / 2, kernel_w / 2) with
// drop_center. Point k of the whole grid is in column k / kernel_h and row k % kernel_h. Point
// (row, column) of output (oy, ox) is, in pixels of value, at
//
//   x = ox * stride_w - pad_w + c_w * (1 - spread) + (column * dilation_w + dx) * spread
//
// with c_w = dilation_w * (kernel_w - 1) / 2 rounded down, and y likewise. It is read bilinearly,
// with zeros outside the map, and counts if -1 < x < W and -1 < y < H; others, NaN and infinity
// among them, add nothing. With `softmax` weights are logits, normalised over the K points of a
// group first, those outside the map included. Ho and Wo are those of a convolution of this kernel.
//
// A backward function gives the gradients of value and of offset_mask, in their types. A point that
// doesn't count has gradient 0, but for its logit's. At a pixel's centre, where the derivative
// jumps, dx and dy get the one of the cell to the right and below.
//
// Every function throws c10::Error on operands that don't fit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <tuple>

namespace deform::ops {

struct AttnParameters {
  int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int64_t groups, group_dims;
  double spread;
  bool drop_center;
  bool softmax = false;
  // Sum a half-precision value's gradient in float32. False: in its own type, where the GPU has
  // atomic additions of both half-precision types (SM 9.0). Backward on CUDA only.
  bool fp32acc = true;

  const char* name() const { return softmax ? "attn_softmax" : "attn"; }
  int64_t points() const { return kernel_h * kernel_w - (drop_center ? 1 : 0); }
};

using AttnGradients = std::tuple<at::Tensor, at::Tensor>;

// Vectorised and threaded. Backward: bit for bit the same on every run, with any number of threads.
at::Tensor attn_cpu(const at::Tensor& value, const at::Tensor& offset_mask,
                    const AttnParameters& parameters);
AttnGradients attn_backward_cpu(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset_mask, const AttnParameters& parameters);

// Run on the current stream of value's device, without waiting. Backward adds up value's gradient
// by atomic additions; where deterministic algorithms are asked for, by attn_backward_eager.
at::Tensor attn_cuda(const at::Tensor& value, const at::Tensor& offset_mask,
                     const AttnParameters& parameters);
AttnGradients attn_backward_cuda(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset_mask, const AttnParameters& parameters);

// The same with kernels that are compiled at run time for the call's sizes and types (jit/).
at::Tensor attn_jit(const at::Tensor& value, const at::Tensor& offset_mask,
                    const AttnParameters& parameters);
AttnGradients attn_backward_jit(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset_mask, const AttnParameters& parameters);

// Differentiable tensor operations on any device, traceable, sizes symbolic or not.
at::Tensor attn_eager(const at::Tensor& value, const at::Tensor& offset_mask,
                      const AttnParameters& parameters);
AttnGradients attn_backward_eager(const at::Tensor& grad_output, const at::Tensor& value,
                                  const at::Tensor& offset_mask, const AttnParameters& parameters);

// Plain loops in double precision on the host, whatever the operands' device and type. For tests.
at::Tensor attn_reference(const at::Tensor& value, const at::Tensor& offset_mask,
                          const AttnParameters& parameters);
AttnGradients attn_backward_reference(const at::Tensor& grad_output, const at::Tensor& value,
                                      const at::Tensor& offset_mask,
                                      const AttnParameters& parameters);

// Only shapes, types and device of the results; sizes may be symbolic.
at::Tensor attn_meta(const at::Tensor& value, const at::Tensor& offset_mask,
                     const AttnParameters& parameters);
AttnGradients attn_backward_meta(const at::Tensor& grad_output, const at::Tensor& value,
                                 const at::Tensor& offset_mask, const AttnParameters& parameters);

// The namespaces whose operators have a derivative of their own.
enum class AttnNamespace { kDeform, kCpu, kCuda, kJit, kReference };

// The namespace's operator below autograd; where a derivative is wanted, a node whose backward is
// the namespace's backward operator. Derivatives of higher order, forward-mode ones and those under
// torch.func are the eager form's.
template <AttnNamespace where>
at::Tensor attn_autograd(const at::Tensor& value, const at::Tensor& offset_mask,
                         const AttnParameters& parameters);
template <AttnNamespace where>
AttnGradients attn_backward_autograd(const at::Tensor& grad_output, const at::Tensor& value,
                                     const at::Tensor& offset_mask,
                                     const AttnParameters& parameters);

}  // namespace deform::ops
