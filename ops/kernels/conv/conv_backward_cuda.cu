#include <algorithm>

#include "common/launch_cuda.h"
#include "conv/conv_backward_cuda_kernel.cuh"
#include "conv/conv_cuda.h"
#include "conv/conv_cuda_request.h"
#include "conv/conv_cuda_tiles.h"

namespace deform::kernels {
namespace {

// Code for tensor cores is empty, and never launched, for GPUs before SM 8.0.
template <class T, bool kTensorCores>
__global__ void __launch_bounds__(cuda::kConvThreads)
    conv_backward_points_kernel(const ConvCudaArguments a, const ConvCudaGradients to) {
#if __CUDA_ARCH__ >= 800
  cuda::conv_backward_points_block<T, kTensorCores>(a, to);
#else
  cuda::conv_backward_points_block<T, false>(a, to);
#endif
}

template <class T, bool kTensorCores>
__global__ void __launch_bounds__(cuda::kConvThreads)
    conv_backward_weight_kernel(const ConvCudaArguments a, const ConvCudaGradients to,
                                const int64_t outputs_of_share) {
#if __CUDA_ARCH__ >= 800
  cuda::conv_backward_weight_block<T, kTensorCores>(a, to, outputs_of_share);
#else
  cuda::conv_backward_weight_block<T, false>(a, to, outputs_of_share);
#endif
}

unsigned tiles(int64_t size) {
  return static_cast<unsigned>((size + cuda::kTile - 1) / cuda::kTile);
}

template <class T, bool kTensorCores>
const char* launch_both(const ConvCudaArguments& a, const ConvCudaGradients& to,
                        const CudaLaunch& where) {
  const auto request = [&](const char* entry, bool of_weight) {
    return conv_request(a, "conv/conv_backward_jit.cuh", entry,
                        {{"DEFORM_TENSOR_CORES", kTensorCores}, {"DEFORM_OF_WEIGHT", of_weight}});
  };
  const int64_t outputs = a.batch * a.out_height * a.out_width;
  const int64_t points = a.kernel_h * a.kernel_w;
  const dim3 by_points(tiles(outputs), static_cast<unsigned>(points),
                       static_cast<unsigned>(a.offset_groups));
  const char* failure = cuda::launch(
      where, conv_backward_points_kernel<T, kTensorCores>,
      [&] { return request("conv_backward_points", false); }, {by_points, cuda::kConvThreads, 0}, a,
      to);
  if (failure != nullptr) return failure;

  // Shares of the outputs, so that some thousand blocks have work.
  constexpr int64_t kBlocks = 2048;
  const int64_t of_weight =
      tiles(a.channels / a.groups) * points * a.groups * tiles(a.out_channels / a.groups);
  const int64_t shares = std::clamp<int64_t>(kBlocks / of_weight, 1, (outputs + 255) / 256);
  const int64_t outputs_of_share = (outputs + shares - 1) / shares;
  const dim3 by_weight(static_cast<unsigned>(tiles(a.channels / a.groups) * points),
                       static_cast<unsigned>(tiles(a.out_channels / a.groups) * a.groups),
                       static_cast<unsigned>(shares));
  return cuda::launch(
      where, conv_backward_weight_kernel<T, kTensorCores>,
      [&] { return request("conv_backward_weight", true); }, {by_weight, cuda::kConvThreads, 0}, a,
      to, outputs_of_share);
}

}  // namespace

const char* conv_backward_cuda(const ConvCudaArguments& a, const ConvCudaGradients& to,
                               const CudaLaunch& where) {
  return cuda::visit_element(a.value_dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) <= 4) {
      if (on_tensor_cores(a, where.gpu)) return launch_both<T, true>(a, to, where);
    }
    return launch_both<T, false>(a, to, where);
  });
}

}  // namespace deform::kernels
