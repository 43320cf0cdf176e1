// What the run-time compiler is told of a call of deformable convolution.
#pragma once

#include "common/elements_cuda.cuh"
#include "conv/conv_cuda.h"

namespace deform::kernels::cuda {

using Value = Element<static_cast<Dtype>(DEFORM_VALUE)>;

__device__ inline ConvCudaArguments with_constants(ConvCudaArguments a) {
  a.channels = DEFORM_CHANNELS;
  a.out_channels = DEFORM_OUT_CHANNELS;
  a.kernel_h = DEFORM_KERNEL_H;
  a.kernel_w = DEFORM_KERNEL_W;
  a.groups = DEFORM_GROUPS;
  a.offset_groups = DEFORM_OFFSET_GROUPS;
  if (!DEFORM_HAS_MASK) a.mask = nullptr;
  a.value_dtype = static_cast<Dtype>(DEFORM_VALUE);
  a.offset_dtype = static_cast<Dtype>(DEFORM_OFFSETS);
  a.mask_dtype = static_cast<Dtype>(DEFORM_MASK);
  return a;
}

}  // namespace deform::kernels::cuda
