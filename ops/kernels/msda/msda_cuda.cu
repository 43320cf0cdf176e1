#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "common/team_launch_cuda.h"
#include "msda/msda_cuda.h"
#include "msda/msda_cuda_kernel.cuh"

namespace deform::kernels {
namespace {

template <class T>
void launch(const MsdaCudaArguments& a, void* output, cudaStream_t stream) {
  cuda::with_widest_packs<T>(a.channels, {a.value, output}, [&](auto width) {
    const int64_t threads = a.batch * a.queries * a.heads * (a.channels / width);
    const int64_t blocks = std::min<int64_t>(
        (threads + cuda::kMsdaThreads - 1) / cuda::kMsdaThreads, std::numeric_limits<int>::max());
    cuda::msda_kernel<T, decltype(width)::value>
        <<<static_cast<unsigned>(blocks), cuda::kMsdaThreads, 0, stream>>>(
            a, static_cast<T*>(output), threads);
  });
}

}  // namespace

const char* msda_cuda(const MsdaCudaArguments& arguments, void* output, int device,
                      CUstream_st* stream) {
  // This library has a CUDA runtime of its own, whose idea of the current device may be an older
  // one.
  const cudaError_t selected = cudaSetDevice(device);
  if (selected != cudaSuccess) return cudaGetErrorString(selected);
  switch (arguments.value_dtype) {
    case Dtype::kFloat32:
      launch<float>(arguments, output, stream);
      break;
    case Dtype::kFloat16:
      launch<__half>(arguments, output, stream);
      break;
    case Dtype::kBFloat16:
      launch<__nv_bfloat16>(arguments, output, stream);
      break;
    case Dtype::kFloat64:
      launch<double>(arguments, output, stream);
      break;
  }
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess ? nullptr : cudaGetErrorString(launched);
}

}  // namespace deform::kernels
