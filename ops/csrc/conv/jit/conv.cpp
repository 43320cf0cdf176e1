// Which run-time kernels calls of deformable convolution take, without a call.
#include <torch/library.h>

#include <optional>

#include "common/dtypes.h"
#include "conv/conv_cuda.h"
#include "jit/jit_kernels.h"

namespace deform::ops {
namespace {

KernelList conv_kernels(int64_t kernel_h, int64_t kernel_w, int64_t channels, int64_t out_channels,
                        int64_t groups, int64_t offset_groups, int64_t outputs,
                        at::ScalarType value, at::ScalarType offset,
                        std::optional<at::ScalarType> mask, bool backward, int64_t sm,
                        int64_t multiprocessors) {
  check_kernel_sizes("conv", {{"kernel_h", kernel_h},
                              {"kernel_w", kernel_w},
                              {"channels", channels},
                              {"out_channels", out_channels},
                              {"groups", groups},
                              {"offset_groups", offset_groups},
                              {"outputs", outputs}});
  TORCH_CHECK(channels % groups == 0 && out_channels % groups == 0,
              "conv: channels and out_channels must be multiples of groups, but are ", channels,
              " and ", out_channels, " with groups=", groups);
  TORCH_CHECK(channels % offset_groups == 0,
              "conv: channels must be a multiple of offset_groups, but is ", channels,
              " with offset_groups=", offset_groups);
  check_kernel_dtypes("conv",
                      {{"value", value}, {"offset", offset}, {"mask", mask.value_or(value)}});
#ifdef DEFORM_CUDA_CONV
  // Null stands for arrays that are aligned, as those of tensors are.
  alignas(16) static const char some_mask = 0;
  kernels::ConvCudaArguments arguments{};
  arguments.mask = mask ? &some_mask : nullptr;
  arguments.batch = arguments.height = arguments.width = arguments.out_height = 1;
  arguments.out_width = outputs;
  arguments.channels = channels;
  arguments.out_channels = out_channels;
  arguments.kernel_h = kernel_h;
  arguments.kernel_w = kernel_w;
  arguments.groups = groups;
  arguments.offset_groups = offset_groups;
  arguments.value_dtype = kernel_dtype(value);
  arguments.offset_dtype = kernel_dtype(offset);
  arguments.mask_dtype = kernel_dtype(mask.value_or(at::kFloat));
  WantedKernels wanted(sm, multiprocessors);
  if (backward) {
    kernels::conv_backward_cuda(arguments, {}, wanted.launch());
  } else {
    kernels::conv_cuda(arguments, nullptr, nullptr, wanted.launch());
  }
  return wanted.list();
#else
  TORCH_CHECK(false, "KernelNotProvidedError: conv: this build has no CUDA kernels for it");
#endif
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform_jit, library) {
  library.def(
      "conv_kernels(int kernel_h, int kernel_w, int channels, int out_channels, int groups, "
      "int offset_groups, int outputs, ScalarType value, ScalarType offset, ScalarType? mask, "
      "bool backward, int sm, int multiprocessors) -> "
      "(str[] keys, str[] origins, Tensor[] cubins)",
      conv_kernels);
}

}  // namespace deform::ops
