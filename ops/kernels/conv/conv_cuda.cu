#include <cuda_runtime.h>

#include "conv/conv_cuda.h"
#include "conv/conv_cuda_kernel.cuh"

namespace deform::kernels {
namespace {

unsigned tiles(int64_t size) {
  return static_cast<unsigned>((size + cuda::kTile - 1) / cuda::kTile);
}

template <class T>
void launch(const ConvCudaArguments& a, const void* bias, void* output, cudaStream_t stream) {
  const dim3 grid(tiles(a.batch * a.out_height * a.out_width), tiles(a.out_channels / a.groups),
                  static_cast<unsigned>(a.groups));
  cuda::conv_kernel<T><<<grid, cuda::kConvThreads, 0, stream>>>(a, static_cast<const T*>(bias),
                                                                static_cast<T*>(output));
}

}  // namespace

const char* conv_cuda(const ConvCudaArguments& arguments, const void* bias, void* output,
                      int device, CUstream_st* stream) {
  // This library has a CUDA runtime of its own, whose idea of the current device may be an older
  // one.
  const cudaError_t selected = cudaSetDevice(device);
  if (selected != cudaSuccess) return cudaGetErrorString(selected);
  switch (arguments.value_dtype) {
    case Dtype::kFloat32:
      launch<float>(arguments, bias, output, stream);
      break;
    case Dtype::kFloat16:
      launch<__half>(arguments, bias, output, stream);
      break;
    case Dtype::kBFloat16:
      launch<__nv_bfloat16>(arguments, bias, output, stream);
      break;
    case Dtype::kFloat64:
      launch<double>(arguments, bias, output, stream);
      break;
  }
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess ? nullptr : cudaGetErrorString(launched);
}

}  // namespace deform::kernels
