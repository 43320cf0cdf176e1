#include <cuda_runtime.h>

#include "attn/attn_cuda.h"
#include "attn/attn_cuda_kernel.cuh"
#include "common/team_launch_cuda.h"

namespace deform::kernels {
namespace {

template <class T>
void launch(const AttnCudaArguments& a, void* output, cudaStream_t stream) {
  cuda::with_widest_packs<T>(a.channels, {a.value, output}, [&](auto width) {
    const int64_t tasks = a.batch * a.out_height * a.out_width * a.groups;
    const cuda::TeamLaunch by = cuda::team_launch(cuda::kAttnThreads, a.channels, width,
                                                  a.grid.points, tasks, 3, sizeof(cuda::Real<T>));
    cuda::attn_kernel<T, decltype(width)::value>
        <<<by.blocks, cuda::kAttnThreads, by.shared_bytes, stream>>>(a, static_cast<T*>(output),
                                                                     by.teams);
  });
}

}  // namespace

const char* attn_cuda(const AttnCudaArguments& arguments, void* output, int device,
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
