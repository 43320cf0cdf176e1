// The backward kernel with a call's sizes and types as constants (attn_cuda_request.h), for the
// run-time compiler.
#pragma once

#include "attn/attn_backward_cuda_kernel.cuh"
#include "attn/attn_jit_constants.cuh"

extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kAttnThreads)
    attn_backward(const deform::kernels::AttnCudaArguments a,
                  const deform::kernels::AttnCudaGradients to,
                  const deform::kernels::cuda::Teams by) {
  using namespace deform::kernels::cuda;
  using T = Element<kValueDtype>;
  attn_backward_block<T, SumOf<T, DEFORM_NATIVE>, DEFORM_WIDTH>(
      with_constants(a), to, Teams{DEFORM_LANES, DEFORM_CHUNK, by.tasks});
}
