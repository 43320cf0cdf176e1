#include <cuda_runtime.h>

#include <algorithm>

#include "conv/conv_backward_cuda_kernel.cuh"
#include "conv/conv_cuda.h"

namespace deform::kernels {
namespace {

unsigned tiles(int64_t size) {
  return static_cast<unsigned>((size + cuda::kTile - 1) / cuda::kTile);
}

template <class T>
void launch(const ConvCudaArguments& a, const ConvCudaGradients& gradients, cudaStream_t stream) {
  using R = cuda::Real<T>;
  const int64_t outputs = a.batch * a.out_height * a.out_width;
  const int64_t points = a.kernel_h * a.kernel_w;
  const T* of_result = static_cast<const T*>(gradients.output);
  const dim3 by_points(tiles(outputs), static_cast<unsigned>(points),
                       static_cast<unsigned>(a.offset_groups));
  cuda::conv_backward_points_kernel<T><<<by_points, cuda::kConvThreads, 0, stream>>>(
      a, of_result, static_cast<R*>(gradients.value), gradients.offset, gradients.mask);

  // Shares of the outputs, so that some thousand blocks have work.
  constexpr int64_t kBlocks = 2048;
  const int64_t of_weight =
      tiles(a.channels / a.groups) * points * a.groups * tiles(a.out_channels / a.groups);
  const int64_t shares = std::clamp<int64_t>(kBlocks / of_weight, 1, (outputs + 255) / 256);
  const int64_t outputs_of_share = (outputs + shares - 1) / shares;
  const dim3 by_weight(static_cast<unsigned>(tiles(a.channels / a.groups) * points),
                       static_cast<unsigned>(tiles(a.out_channels / a.groups) * a.groups),
                       static_cast<unsigned>(shares));
  cuda::conv_backward_weight_kernel<T><<<by_weight, cuda::kConvThreads, 0, stream>>>(
      a, of_result, static_cast<R*>(gradients.weight), outputs_of_share);
}

}  // namespace

const char* conv_backward_cuda(const ConvCudaArguments& arguments,
                               const ConvCudaGradients& gradients, int device,
                               CUstream_st* stream) {
  // As in conv_cuda.
  const cudaError_t selected = cudaSetDevice(device);
  if (selected != cudaSuccess) return cudaGetErrorString(selected);
  switch (arguments.value_dtype) {
    case Dtype::kFloat32:
      launch<float>(arguments, gradients, stream);
      break;
    case Dtype::kFloat16:
      launch<__half>(arguments, gradients, stream);
      break;
    case Dtype::kBFloat16:
      launch<__nv_bfloat16>(arguments, gradients, stream);
      break;
    case Dtype::kFloat64:
      launch<double>(arguments, gradients, stream);
      break;
  }
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess ? nullptr : cudaGetErrorString(launched);
}

}  // namespace deform::kernels
