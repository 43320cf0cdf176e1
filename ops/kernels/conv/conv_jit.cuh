// The forward kernels with a call's sizes and types as constants (conv_cuda_request.h), for the
// run-time compiler.
#pragma once

#include "conv/conv_jit_constants.cuh"

#ifdef DEFORM_ROWS
#include "conv/conv_cuda_kernel.cuh"

extern "C" __global__ void __launch_bounds__(
    deform::kernels::cuda::kConvThreads,
    (deform::kernels::cuda::ConvTile<deform::kernels::cuda::Value, DEFORM_ROWS, DEFORM_COLUMNS,
                                     DEFORM_SPLIT>::kBlocksAtOnce))
    conv(const deform::kernels::ConvCudaArguments a, const deform::kernels::cuda::Value* bias,
         deform::kernels::cuda::Value* result) {
  using namespace deform::kernels::cuda;
  conv_block<Value, DEFORM_ROWS, DEFORM_COLUMNS, DEFORM_PACKS, DEFORM_SPLIT>(with_constants(a),
                                                                             bias, result);
}
#else
#include "conv/conv_cuda_fma.cuh"

extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kFmaThreads)
    conv_fma(const deform::kernels::ConvCudaArguments a, const deform::kernels::cuda::Value* bias,
             deform::kernels::cuda::Value* result) {
  using namespace deform::kernels::cuda;
  conv_fma_block<Value>(with_constants(a), bias, result);
}
#endif
