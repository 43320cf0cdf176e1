// Which run-time kernels calls of multi-scale deformable attention take, without a call.
#include <torch/library.h>

#include "common/cuda_launch.h"
#include "common/dtypes.h"
#include "jit/jit_kernels.h"
#include "msda/msda_cuda.h"
#include "select/policy.h"

namespace deform::ops {
namespace {

KernelList msda_kernels(int64_t channels, int64_t levels, int64_t points, at::ScalarType value,
                        at::ScalarType locations, at::ScalarType weights, bool softmax,
                        bool backward, bool fp32acc, int64_t sm) {
  check_kernel_sizes("msda", {{"channels", channels}, {"levels", levels}, {"points", points}});
  check_kernel_dtypes("msda", {{"value", value}, {"locations", locations}, {"weights", weights}});
#ifdef DEFORM_CUDA_MSDA
  // One query of one head; null stands for arrays that are aligned, as those of tensors are.
  kernels::MsdaCudaArguments arguments{};
  arguments.batch = arguments.queries = arguments.heads = 1;
  arguments.rows = levels;
  arguments.channels = channels;
  arguments.levels = levels;
  arguments.points = points;
  arguments.value_dtype = kernel_dtype(value);
  arguments.locations_dtype = kernel_dtype(locations);
  arguments.weights_dtype = kernel_dtype(weights);
  arguments.softmax = softmax;
  WantedKernels wanted(sm);
  if (backward) {
    kernels::MsdaCudaGradients gradients{};
    gradients.native = sums_in_own_type(static_cast<int>(sm), value, fp32acc);
    kernels::msda_backward_cuda(arguments, gradients, wanted.launch());
  } else {
    kernels::msda_cuda(arguments, nullptr, wanted.launch());
  }
  return wanted.list();
#else
  TORCH_CHECK(false, "KernelNotProvidedError: msda: this build has no CUDA kernels for it");
#endif
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(deform_jit, library) {
  library.def(
      "msda_kernels(int channels, int levels, int points, ScalarType value, ScalarType locations, "
      "ScalarType weights, bool softmax, bool backward, bool fp32acc, int sm) -> "
      "(str[] keys, str[] origins, Tensor[] cubins)",
      msda_kernels);
}

}  // namespace deform::ops
