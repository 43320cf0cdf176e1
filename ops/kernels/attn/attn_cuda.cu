#include "attn/attn_cuda.h"

#include "attn/attn_cuda_kernel.cuh"
#include "attn/attn_cuda_request.h"
#include "common/launch_cuda.h"
#include "common/team_launch_cuda.h"

namespace deform::kernels {
namespace {

template <class T, int kWidth>
__global__ void __launch_bounds__(cuda::kAttnThreads)
    attn_kernel(const AttnCudaArguments a, void* output, const cuda::Teams by) {
  cuda::attn_block<T, kWidth>(a, output, by);
}

}  // namespace

const char* attn_cuda(const AttnCudaArguments& a, void* output, const CudaLaunch& where) {
  return cuda::visit_element(a.value_dtype, [&](auto element) {
    using T = decltype(element);
    return cuda::with_widest_packs<T>(a.channels, {a.value, output}, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const cuda::TeamLaunch by = cuda::team_launch(
          cuda::kAttnThreads, a.channels, kWidth, a.grid.points,
          a.batch * a.out_height * a.out_width * a.groups, 3, sizeof(cuda::Real<T>));
      const auto request = [&] {
        return attn_request(a, "attn/attn_jit.cuh", "attn",
                            {{"DEFORM_WIDTH", kWidth},
                             {"DEFORM_LANES", by.teams.lanes},
                             {"DEFORM_CHUNK", by.teams.chunk}});
      };
      return cuda::launch(where, attn_kernel<T, kWidth>, request,
                          {dim3(by.blocks), cuda::kAttnThreads, by.shared_bytes}, a, output,
                          by.teams);
    });
  });
}

}  // namespace deform::kernels
