#include <cuda_runtime.h>

#include "common/team_launch_cuda.h"
#include "msda/msda_backward_cuda_kernel.cuh"
#include "msda/msda_cuda.h"

namespace deform::kernels {
namespace {

template <class T, class A>
void launch(const MsdaCudaArguments& a, const MsdaCudaGradients& gradients, cudaStream_t stream) {
  cuda::with_widest_packs<T>(a.channels, {a.value, gradients.output}, [&](auto width) {
    constexpr int kThreads = cuda::kMsdaBackwardThreads;
    const cuda::TeamLaunch by =
        cuda::team_launch(kThreads, a.channels, width, a.levels * a.points,
                          a.batch * a.queries * a.heads, 4, sizeof(cuda::Real<T>));
    cuda::msda_backward_kernel<T, A, decltype(width)::value>
        <<<by.blocks, kThreads, by.shared_bytes, stream>>>(a, gradients, by.teams);
  });
}

template <class T>
void launch_half(const MsdaCudaArguments& a, const MsdaCudaGradients& gradients,
                 cudaStream_t stream) {
  if (gradients.native) {
    launch<T, T>(a, gradients, stream);
  } else {
    launch<T, float>(a, gradients, stream);
  }
}

}  // namespace

const char* msda_backward_cuda(const MsdaCudaArguments& arguments,
                               const MsdaCudaGradients& gradients, int device,
                               CUstream_st* stream) {
  // As in msda_cuda.
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
