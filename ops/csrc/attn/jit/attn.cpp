// Which run-time kernels calls of single-scale deformable sampling take, without a call.
#include <torch/library.h>

#include "attn/attn.h"
#include "attn/attn_cuda.h"
#include "attn/operands.h"
#include "common/cuda_launch.h"
#include "common/dtypes.h"
#include "jit/jit_kernels.h"
#include "select/policy.h"

namespace deform::ops {
namespace {

KernelList attn_kernels(int64_t kernel_h, int64_t kernel_w, int64_t group_dims, bool drop_center,
                        at::ScalarType value, at::ScalarType offset_mask, bool softmax,
                        bool backward, bool fp32acc, int64_t sm) {
  const int64_t dropped = drop_center ? 1 : 0;
  check_kernel_sizes("attn", {{"kernel_h", kernel_h},
                              {"kernel_w", kernel_w},
                              {"group_dims", group_dims},
                              {"the number of points", kernel_h * kernel_w - dropped}});
  check_kernel_dtypes("attn", {{"value", value}, {"offset_mask", offset_mask}});
#ifdef DEFORM_CUDA_ATTN
  // One output of one group; null stands for arrays that are aligned, as those of tensors are.
  AttnParameters p{kernel_h, kernel_w,     1,          1,   0,           0,      1,
                   1,        /*groups=*/1, group_dims, 1.0, drop_center, softmax};
  kernels::AttnCudaArguments arguments{};
  arguments.batch = arguments.height = arguments.width = 1;
  arguments.out_height = arguments.out_width = arguments.groups = 1;
  arguments.channels = group_dims;
  arguments.row_elements = 3 * p.points();
  arguments.grid = attn_grid(p);
  arguments.value_dtype = kernel_dtype(value);
  arguments.offset_dtype = kernel_dtype(offset_mask);
  arguments.softmax = softmax;
  WantedKernels wanted(sm);
  if (backward) {
    kernels::AttnCudaGradients gradients{};
    gradients.native = sums_in_own_type(static_cast<int>(sm), value, fp32acc);
    kernels::attn_backward_cuda(arguments, gradients, wanted.launch());
  } else {
    kernels::attn_cuda(arguments, nullptr, wanted.launch());
  }
  return wanted.list();
#else
  TORCH_CHECK(false, "KernelNotProvidedError: attn: this build has no CUDA kernels for it");
#endif
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform_jit, library) {
  library.def(
      "attn_kernels(int kernel_h, int kernel_w, int group_dims, bool drop_center, ScalarType "
      "value, "
      "ScalarType offset_mask, bool softmax, bool backward, bool fp32acc, int sm) -> "
      "(str[] keys, str[] origins, Tensor[] cubins)",
      attn_kernels);
}

}  // namespace deform::ops
