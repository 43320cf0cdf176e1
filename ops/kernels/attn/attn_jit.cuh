// The forward kernel with a call's sizes and types as constants (attn_cuda_request.h), for the
// run-time compiler.
#pragma once

#include "attn/attn_cuda_kernel.cuh"
#include "attn/attn_jit_constants.cuh"

extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kAttnThreads)
    attn(const deform::kernels::AttnCudaArguments a, void* output,
         const deform::kernels::cuda::Teams by) {
  using namespace deform::kernels::cuda;
  attn_block<Element<kValueDtype>, DEFORM_WIDTH>(with_constants(a), output,
                                                 Teams{DEFORM_LANES, DEFORM_CHUNK, by.tasks});
}
