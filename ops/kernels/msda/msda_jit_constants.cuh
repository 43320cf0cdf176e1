// What the run-time compiler is told of a call of multi-scale deformable attention.
#pragma once

#include "common/elements_cuda.cuh"
#include "msda/msda_cuda.h"

namespace deform::kernels::cuda {

constexpr Dtype kValueDtype = static_cast<Dtype>(DEFORM_VALUE);

__device__ inline MsdaCudaArguments with_constants(MsdaCudaArguments a) {
  a.channels = DEFORM_CHANNELS;
  a.levels = DEFORM_LEVELS;
  a.points = DEFORM_POINTS;
  a.value_dtype = kValueDtype;
  a.locations_dtype = static_cast<Dtype>(DEFORM_LOCATIONS);
  a.weights_dtype = static_cast<Dtype>(DEFORM_WEIGHTS);
  a.softmax = DEFORM_SOFTMAX;
  return a;
}

}  // namespace deform::kernels::cuda
