// The forward kernels with a call's sizes and types as constants (msda_cuda_request.h), for the
// run-time compiler.
#pragma once

#include "msda/msda_jit_constants.cuh"

#ifdef DEFORM_LANES
#include "msda/msda_cuda_warp_kernel.cuh"

extern "C" __global__ void __launch_bounds__(32 * deform::kernels::cuda::kMsdaWarps,
                                             deform::kernels::cuda::kMsdaBlocksAtOnce)
    msda_warp(const deform::kernels::MsdaCudaArguments a, void* output, const uint32_t heads) {
  using namespace deform::kernels::cuda;
  msda_warp_block<Element<kValueDtype>, DEFORM_LANES, DEFORM_POINTS, DEFORM_LEVELS>(
      with_constants(a), output, heads);
}
#else
#include "msda/msda_cuda_kernel.cuh"

extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kMsdaThreads)
    msda(const deform::kernels::MsdaCudaArguments a, void* output, const int64_t threads) {
  using namespace deform::kernels::cuda;
  msda_block<Element<kValueDtype>, DEFORM_WIDTH>(with_constants(a), output, threads);
}
#endif
