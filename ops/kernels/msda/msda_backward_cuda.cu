#include "common/launch_cuda.h"
#include "common/team_launch_cuda.h"
#include "msda/msda_backward_cuda_kernel.cuh"
#include "msda/msda_cuda.h"
#include "msda/msda_cuda_request.h"

namespace deform::kernels {
namespace {

template <class T, class A, int kWidth>
__global__ void __launch_bounds__(cuda::kMsdaBackwardThreads)
    msda_backward_kernel(const MsdaCudaArguments a, const MsdaCudaGradients to,
                         const cuda::Teams by) {
  cuda::msda_backward_block<T, A, kWidth>(a, to, by);
}

template <class T, class A>
const char* launch_with_sums(const MsdaCudaArguments& a, const MsdaCudaGradients& to,
                             const CudaLaunch& where) {
  return cuda::with_widest_packs<T>(a.channels, {a.value, to.output}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const cuda::TeamLaunch by =
        cuda::team_launch(cuda::kMsdaBackwardThreads, a.channels, kWidth, a.levels * a.points,
                          a.batch * a.queries * a.heads, 4, sizeof(cuda::Real<T>));
    const auto request = [&] {
      return msda_request(a, "msda/msda_backward_jit.cuh", "msda_backward",
                          {{"DEFORM_WIDTH", kWidth},
                           {"DEFORM_NATIVE", to.native},
                           {"DEFORM_LANES", by.teams.lanes},
                           {"DEFORM_CHUNK", by.teams.chunk}});
    };
    return cuda::launch(where, msda_backward_kernel<T, A, kWidth>, request,
                        {dim3(by.blocks), cuda::kMsdaBackwardThreads, by.shared_bytes}, a, to,
                        by.teams);
  });
}

}  // namespace

const char* msda_backward_cuda(const MsdaCudaArguments& a, const MsdaCudaGradients& to,
                               const CudaLaunch& where) {
  return cuda::visit_element(a.value_dtype, [&](auto element) {
    using T = decltype(element);
    return to.native ? launch_with_sums<T, T>(a, to, where)
                     : launch_with_sums<T, cuda::Real<T>>(a, to, where);
  });
}

}  // namespace deform::kernels
