// Single-scale deformable sampling on CUDA: raw device pointers, no torch.
#pragma once

#include <stdint.h>

#include "attn/attn_grid.h"
#include "common/dtype.h"

namespace deform::kernels {

struct CudaLaunch;

// All arrays are contiguous device memory and none that is written overlaps another. REQUIRES:
// every size >= 1, height * width < 2^31, groups * channels < 2^31, groups * points at most 2^30,
// row_elements >= groups * points * 3.
struct AttnCudaArguments {
  const void* value;        // [batch, height, width, groups, channels] of value_dtype
  const void* offset_mask;  // [batch, out_height, out_width, row_elements] of offset_dtype; a row
                            // is groups of points of dx, dy, weight, and elements that don't count
  int64_t batch, height, width, out_height, out_width, groups, channels, row_elements;
  AttnGrid grid;
  Dtype value_dtype, offset_dtype;
  bool softmax;  // normalise each group's weights first
};

struct AttnCudaGradients {
  const void* output;  // the result's gradient, of value_dtype
  // Like value, and holds zeros, to which gradients are added: of value_dtype with `native`, else
  // of float, or of double for double.
  void* value;
  void* offset_mask;  // like offset_mask; elements that don't count aren't written
  // Atomic additions in value's own type; on SM 9.0 and later where that is a half one.
  bool native;
};

// Each enqueues its kernel where `where` says (common/cuda_launch.h) and returns at once. Returns
// null, or what CUDA said of a launch that failed.
const char* attn_cuda(const AttnCudaArguments& arguments, void* output, const CudaLaunch& where);
const char* attn_backward_cuda(const AttnCudaArguments& arguments,
                               const AttnCudaGradients& gradients, const CudaLaunch& where);

}  // namespace deform::kernels
