// The backward kernel with a call's sizes and types as constants (msda_cuda_request.h), for the
// run-time compiler.
#pragma once

#include "msda/msda_backward_cuda_kernel.cuh"
#include "msda/msda_jit_constants.cuh"

extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kMsdaBackwardThreads)
    msda_backward(const deform::kernels::MsdaCudaArguments a,
                  const deform::kernels::MsdaCudaGradients to,
                  const deform::kernels::cuda::Teams by) {
  using namespace deform::kernels::cuda;
  using T = Element<kValueDtype>;
  msda_backward_block<T, SumOf<T, DEFORM_NATIVE>, DEFORM_WIDTH>(
      with_constants(a), to, Teams{DEFORM_LANES, DEFORM_CHUNK, by.tasks});
}
