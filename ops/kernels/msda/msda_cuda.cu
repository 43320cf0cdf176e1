#include "msda/msda_cuda.h"

#include <algorithm>
#include <limits>

#include "common/launch_cuda.h"
#include "common/team_launch_cuda.h"
#include "msda/msda_cuda_kernel.cuh"
#include "msda/msda_cuda_request.h"
#include "msda/msda_cuda_warp_kernel.cuh"

namespace deform::kernels {
namespace {

template <class T, int kWidth>
__global__ void __launch_bounds__(cuda::kMsdaThreads)
    msda_kernel(const MsdaCudaArguments a, void* output, const int64_t threads) {
  cuda::msda_block<T, kWidth>(a, output, threads);
}

template <class T>
const char* launch_threads(const MsdaCudaArguments& a, void* output, const CudaLaunch& where) {
  return cuda::with_widest_packs<T>(a.channels, {a.value, output}, [&](auto width) {
    constexpr int kWidth = decltype(width)::value;
    const int64_t threads = a.batch * a.queries * a.heads * (a.channels / kWidth);
    const int64_t blocks = std::min<int64_t>(
        (threads + cuda::kMsdaThreads - 1) / cuda::kMsdaThreads, std::numeric_limits<int>::max());
    const auto request = [&] {
      return msda_request(a, "msda/msda_jit.cuh", "msda", {{"DEFORM_WIDTH", kWidth}});
    };
    return cuda::launch(where, msda_kernel<T, kWidth>, request,
                        {dim3(static_cast<unsigned>(blocks)), cuda::kMsdaThreads, 0}, a, output,
                        threads);
  });
}

template <class T, int kLanes, int kPoints, int kLevels>
__global__ void __launch_bounds__(32 * cuda::kMsdaWarps, cuda::kMsdaBlocksAtOnce)
    msda_warp_kernel(const MsdaCudaArguments a, void* output, const uint32_t heads) {
  cuda::msda_warp_block<T, kLanes, kPoints, kLevels>(a, output, heads);
}

template <class T, int kLanes, int kPoints, int kLevels>
const char* launch_warps(const MsdaCudaArguments& a, void* output, const CudaLaunch& where) {
  constexpr int kHeads = 32 / kLanes * cuda::kMsdaWarps;
  const auto heads = static_cast<uint32_t>(a.batch * a.queries * a.heads);
  const size_t of_head = static_cast<size_t>(a.levels * a.points) | 1;
  const auto request = [&] {
    return msda_request(a, "msda/msda_jit.cuh", "msda_warp", {{"DEFORM_LANES", kLanes}});
  };
  return cuda::launch(where, msda_warp_kernel<T, kLanes, kPoints, kLevels>, request,
                      {dim3((heads + kHeads - 1) / kHeads), 32 * cuda::kMsdaWarps,
                       kHeads * of_head * sizeof(cuda::PlacedPoint)},
                      a, output, heads);
}

// Whether the kernel for warps takes the call; it counts in 32 bits.
template <class T>
bool fits_warps(const MsdaCudaArguments& a, const void* output) {
  const auto is_aligned = [](const void* array) {
    return reinterpret_cast<uintptr_t>(array) % 16 == 0;
  };
  const int64_t value_bytes =
      a.batch * a.rows * a.heads * a.channels * static_cast<int64_t>(sizeof(T));
  return a.levels <= cuda::kMsdaWarpLevels && a.points <= cuda::kMsdaWarpPoints &&
         a.levels * a.points <= cuda::kMsdaWarpPoints && a.locations_dtype != Dtype::kFloat64 &&
         a.weights_dtype != Dtype::kFloat64 && is_aligned(a.value) && is_aligned(output) &&
         value_bytes <= std::numeric_limits<uint32_t>::max() &&
         a.batch * a.queries * a.heads <= std::numeric_limits<int>::max();
}

// With the points and levels of models that many use as constants, for heads of 32 channels.
template <class T, int kLanes>
const char* launch_known_warps(const MsdaCudaArguments& a, void* output, const CudaLaunch& where) {
  if (a.points == 4 && a.levels == 1) return launch_warps<T, kLanes, 4, 1>(a, output, where);
  if (a.points == 4 && a.levels == 3) return launch_warps<T, kLanes, 4, 3>(a, output, where);
  if (a.points == 4 && a.levels == 4) return launch_warps<T, kLanes, 4, 4>(a, output, where);
  return launch_warps<T, kLanes, 0, 0>(a, output, where);
}

}  // namespace

const char* msda_cuda(const MsdaCudaArguments& a, void* output, const CudaLaunch& where) {
  return cuda::visit_element(a.value_dtype, [&](auto element) {
    using T = decltype(element);
    if constexpr (sizeof(T) <= 4) {
      constexpr int kLanesOf32 = 32 * sizeof(T) / 16;
      const int64_t bytes = a.channels * static_cast<int64_t>(sizeof(T));
      if (fits_warps<T>(a, output)) {
        if (a.channels == 32) return launch_known_warps<T, kLanesOf32>(a, output, where);
        if (bytes == 32) return launch_warps<T, 2, 0, 0>(a, output, where);
        if (bytes == 64) return launch_warps<T, 4, 0, 0>(a, output, where);
        if (bytes == 128) return launch_warps<T, 8, 0, 0>(a, output, where);
        if (bytes == 256) return launch_warps<T, 16, 0, 0>(a, output, where);
      }
    }
    return launch_threads<T>(a, output, where);
  });
}

}  // namespace deform::kernels
