// The backward kernels with a call's sizes and types as constants (conv_cuda_request.h), for the
// run-time compiler.
#pragma once

#include "conv/conv_backward_cuda_kernel.cuh"
#include "conv/conv_jit_constants.cuh"

#if !DEFORM_OF_WEIGHT
extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kConvThreads)
    conv_backward_points(const deform::kernels::ConvCudaArguments a,
                         const deform::kernels::ConvCudaGradients to) {
  using namespace deform::kernels::cuda;
  conv_backward_points_block<Value, DEFORM_TENSOR_CORES>(with_constants(a), to);
}
#else
extern "C" __global__ void __launch_bounds__(deform::kernels::cuda::kConvThreads)
    conv_backward_weight(const deform::kernels::ConvCudaArguments a,
                         const deform::kernels::ConvCudaGradients to,
                         const int64_t outputs_of_share) {
  using namespace deform::kernels::cuda;
  conv_backward_weight_block<Value, DEFORM_TENSOR_CORES>(with_constants(a), to, outputs_of_share);
}
#endif
