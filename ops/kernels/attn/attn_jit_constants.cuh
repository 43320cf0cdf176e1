// What the run-time compiler is told of a call of single-scale deformable sampling.
#pragma once

#include "attn/attn_cuda.h"
#include "common/elements_cuda.cuh"

namespace deform::kernels::cuda {

constexpr Dtype kValueDtype = static_cast<Dtype>(DEFORM_VALUE);

__device__ inline AttnCudaArguments with_constants(AttnCudaArguments a) {
  a.channels = DEFORM_CHANNELS;
  a.grid.points = DEFORM_POINTS;
  a.grid.kernel_h = DEFORM_KERNEL_H;
  a.grid.dropped = DEFORM_DROPPED;
  a.value_dtype = kValueDtype;
  a.offset_dtype = static_cast<Dtype>(DEFORM_OFFSETS);
  a.softmax = DEFORM_SOFTMAX;
  return a;
}

}  // namespace deform::kernels::cuda
