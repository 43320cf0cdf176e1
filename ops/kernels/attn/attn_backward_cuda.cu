#include "attn/attn_backward_cuda_kernel.cuh"
#include "attn/attn_cuda.h"
#include "attn/attn_cuda_request.h"
#include "common/launch_cuda.h"
#include "common/team_launch_cuda.h"

namespace deform::kernels {
namespace {

template <class T, class A, int kWidth>
__global__ void __launch_bounds__(cuda::kAttnThreads)
    attn_backward_kernel(const AttnCudaArguments a, const AttnCudaGradients to,
                         const cuda::Teams by) {
  cuda::attn_backward_block<T, A, kWidth>(a, to, by);
}

template <class T, class A>
const char* launch_with_sums(const AttnCudaArguments& a, const AttnCudaGradients& to,
                             const CudaLaunch& where) {
  return cuda::with_widest_packs<T>(a.channels, {a.value, to.output}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const cuda::TeamLaunch by = cuda::team_launch(
        cuda::kAttnThreads, a.channels, kWidth, a.grid.points,
        a.batch * a.out_height * a.out_width * a.groups, 4, sizeof(cuda::Real<T>));
    const auto request = [&] {
      return attn_request(a, "attn/attn_backward_jit.cuh", "attn_backward",
                          {{"DEFORM_WIDTH", kWidth},
                           {"DEFORM_NATIVE", to.native},
                           {"DEFORM_LANES", by.teams.lanes},
                           {"DEFORM_CHUNK", by.teams.chunk}});
    };
    return cuda::launch(where, attn_backward_kernel<T, A, kWidth>, request,
                        {dim3(by.blocks), cuda::kAttnThreads, by.shared_bytes}, a, to, by.teams);
  });
}

}  // namespace

const char* attn_backward_cuda(const AttnCudaArguments& a, const AttnCudaGradients& to,
                               const CudaLaunch& where) {
  return cuda::visit_element(a.value_dtype, [&](auto element) {
    using T = decltype(element);
    return to.native ? launch_with_sums<T, T>(a, to, where)
                     : launch_with_sums<T, cuda::Real<T>>(a, to, where);
  });
}

}  // namespace deform::kernels
