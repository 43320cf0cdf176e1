// How kernels of teams are launched. For .cu files.
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <type_traits>

#include "common/teams_cuda.cuh"

namespace deform::kernels::cuda {

struct TeamLaunch {
  Teams teams;
  unsigned blocks;
  size_t shared_bytes;
};

// For blocks of `threads`, each with `width` channels, and `arrays` arrays of `element_bytes` for a
// team's points. Shared memory is what the first-level cache has less: no more than 32 KiB a block,
// where several run at once.
inline TeamLaunch team_launch(int threads, int64_t channels, int width, int64_t points,
                              int64_t tasks, int arrays, size_t element_bytes) {
  constexpr size_t kMostSharedBytes = 32 * 1024;
  const int64_t wanted = (channels + width - 1) / width;
  int lanes = 1;
  while (lanes < wanted && lanes < 32) lanes *= 2;
  const int teams = threads / lanes;
  const size_t point_bytes = static_cast<size_t>(teams * arrays) * element_bytes;
  const int64_t chunk = std::min(points, static_cast<int64_t>(kMostSharedBytes / point_bytes));
  const int64_t blocks =
      std::min<int64_t>((tasks + teams - 1) / teams, std::numeric_limits<int>::max());
  return {{lanes, static_cast<int>(chunk), tasks},
          static_cast<unsigned>(blocks),
          static_cast<size_t>(chunk) * point_bytes};
}

// Returns launch(width) for the widest pack of channels that fits, as std::integral_constant: 16
// bytes a thread where the channels divide and `arrays` are aligned, else 4 bytes, else one
// element.
template <class T, class Launch>
auto with_widest_packs(int64_t channels, std::initializer_list<const void*> arrays, Launch launch) {
  const auto fits = [&](int width) {
    const auto misplaced = [&](const void* array) {
      return reinterpret_cast<uintptr_t>(array) % (sizeof(T) * static_cast<size_t>(width)) != 0;
    };
    return channels % width == 0 && std::none_of(arrays.begin(), arrays.end(), misplaced);
  };
  constexpr int kWide = 16 / sizeof(T);
  constexpr int kMiddle = sizeof(T) == 2 ? 2 : 1;
  if (fits(kWide)) return launch(std::integral_constant<int, kWide>());
  if (fits(kMiddle)) return launch(std::integral_constant<int, kMiddle>());
  return launch(std::integral_constant<int, 1>());
}

}  // namespace deform::kernels::cuda
