// How the kernels of both directions are launched. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "attn/attn_cuda_points.cuh"

namespace deform::kernels::cuda {

struct AttnLaunch {
  AttnTeams teams;
  unsigned blocks;
  size_t shared_bytes;
};

// For threads of `width` channels and `arrays` arrays of `element_bytes` in a team. Shared memory
// is what the first-level cache has less: no more than 32 KiB a block, where several run at once.
inline AttnLaunch attn_launch(const AttnCudaArguments& a, int width, int arrays,
                              size_t element_bytes) {
  constexpr size_t kMostSharedBytes = 32 * 1024;
  const int64_t wanted = (a.channels + width - 1) / width;
  int lanes = 1;
  while (lanes < wanted && lanes < 32) lanes *= 2;
  const int teams = kAttnThreads / lanes;
  const size_t point_bytes = static_cast<size_t>(teams * arrays) * element_bytes;
  const int64_t chunk =
      std::min(a.grid.points, static_cast<int64_t>(kMostSharedBytes / point_bytes));
  const int64_t tasks = a.batch * a.out_height * a.out_width * a.groups;
  const int64_t blocks =
      std::min<int64_t>((tasks + teams - 1) / teams, std::numeric_limits<int>::max());
  return {{lanes, static_cast<int>(chunk), tasks},
          static_cast<unsigned>(blocks),
          static_cast<size_t>(chunk) * point_bytes};
}

// Whether packs of kWidth elements can be moved: channels in whole packs, arrays aligned.
template <class T, int kWidth>
bool attn_packs(const AttnCudaArguments& a, const void* other) {
  const auto misplaced = [](const void* p) {
    return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * kWidth) != 0;
  };
  return a.channels % kWidth == 0 && !misplaced(a.value) && !misplaced(other);
}

// Calls launch(width) with the widest width that fits, as std::integral_constant: 16 bytes a thread
// where the channels allow, else 4 bytes, else one element. `other` is moved in packs too.
template <class T, class Launch>
void with_widest_packs(const AttnCudaArguments& a, const void* other, Launch launch) {
  constexpr int kWide = 16 / sizeof(T);
  constexpr int kMiddle = sizeof(T) == 2 ? 2 : 1;
  if (attn_packs<T, kWide>(a, other)) {
    launch(std::integral_constant<int, kWide>());
  } else if (attn_packs<T, kMiddle>(a, other)) {
    launch(std::integral_constant<int, kMiddle>());
  } else {
    launch(std::integral_constant<int, 1>());
  }
}

}  // namespace deform::kernels::cuda
