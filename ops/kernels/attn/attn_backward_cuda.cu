#include <cuda_runtime.h>

#include "attn/attn_backward_cuda_kernel.cuh"
#include "attn/attn_cuda.h"
#include "common/team_launch_cuda.h"

namespace deform::kernels {
namespace {

template <class T, class A>
void launch(const AttnCudaArguments& a, const AttnCudaGradients& gradients, cudaStream_t stream) {
  cuda::with_widest_packs<T>(a.channels, {a.value, gradients.output}, [&](auto width) {
    const int64_t tasks = a.batch * a.out_height * a.out_width * a.groups;
    const cuda::TeamLaunch by = cuda::team_launch(cuda::kAttnThreads, a.channels, width,
                                                  a.grid.points, tasks, 4, sizeof(cuda::Real<T>));
    cuda::attn_backward_kernel<T, A, decltype(width)::value>
        <<<by.blocks, cuda::kAttnThreads, by.shared_bytes, stream>>>(
            a, static_cast<const T*>(gradients.output), static_cast<A*>(gradients.value),
            gradients.offset_mask, by.teams);
  });
}

template <class T>
void launch_half(const AttnCudaArguments& a, const AttnCudaGradients& gradients,
                 cudaStream_t stream) {
  if (gradients.native) {
    launch<T, T>(a, gradients, stream);
  } else {
    launch<T, float>(a, gradients, stream);
  }
}

}  // namespace

const char* attn_backward_cuda(const AttnCudaArguments& arguments,
                               const AttnCudaGradients& gradients, int device,
                               CUstream_st* stream) {
  // As in attn_cuda.
  const cudaError_t selected = cudaSetDevice(device);
  if (selected != cudaSuccess) return cudaGetErrorString(selected);
  switch (arguments.value_dtype) {
    case Dtype::kFloat32:
      launch<float, float>(arguments, gradients, stream);
      break;
    case Dtype::kFloat16:
      launch_half<__half>(arguments, gradients, stream);
      break;
    case Dtype::kBFloat16:
      launch_half<__nv_bfloat16>(arguments, gradients, stream);
      break;
    case Dtype::kFloat64:
      launch<double, double>(arguments, gradients, stream);
      break;
  }
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess ? nullptr : cudaGetErrorString(launched);
}

}  // namespace deform::kernels
