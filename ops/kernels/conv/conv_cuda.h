// Deformable convolution on CUDA: raw device pointers, no torch.
#pragma once

#include <stdint.h>

#include "common/dtype.h"

namespace deform::kernels {

struct CudaLaunch;  // common/cuda_launch.h

// All arrays are contiguous device memory and none that is written overlaps another. REQUIRES:
// every size >= 1, height * width < 2^31, channels, out_channels and kernel_h * kernel_w < 2^31,
// channels a multiple of groups and of offset_groups, out_channels of groups.
struct ConvCudaArguments {
  const void* value;   // [batch, height, width, channels] of value_dtype
  const void* offset;  // [batch, out_height, out_width, offset_groups, points, 2]: dy, dx
  const void* mask;    // [batch, out_height, out_width, offset_groups, points], or null
  const void* weight;  // [groups, points, channels/groups, out_channels/groups] of value_dtype
  int64_t batch, height, width, channels, out_height, out_width, out_channels, kernel_h, kernel_w;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
  Dtype value_dtype, offset_dtype, mask_dtype;
};

struct ConvCudaGradients {
  const void* output;  // the result's gradient: [batch, out_height, out_width, out_channels]
  // Like value and weight, but of float, or of double for double, and hold zeros: gradients are
  // added to them.
  void* value;
  void* weight;
  void* offset;  // like offset
  void* mask;    // like mask, or null
};

// Each enqueues its kernels as `where` says and returns at once. Return null, or what CUDA said of
// a launch that failed. `bias`: [out_channels] of value_dtype, or null; `output`: [batch,
// out_height, out_width, out_channels] of value_dtype.
const char* conv_cuda(const ConvCudaArguments& arguments, const void* bias, void* output,
                      const CudaLaunch& where);
const char* conv_backward_cuda(const ConvCudaArguments& arguments,
                               const ConvCudaGradients& gradients, const CudaLaunch& where);

}  // namespace deform::kernels
