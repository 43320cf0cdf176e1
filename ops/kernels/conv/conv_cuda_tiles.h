// Which kernel a call of deformable convolution takes: a pure function of the call and the GPU.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <algorithm>
#include <initializer_list>

#include "common/device_cuda.h"
#include "conv/conv_cuda.h"

namespace deform::kernels {

inline size_t element_bytes(Dtype dtype) {
  return dtype == Dtype::kFloat64 ? 8 : dtype == Dtype::kFloat32 ? 4 : 2;
}

inline bool on_tensor_cores(const ConvCudaArguments& a, const Gpu& gpu) {
  return gpu.capability >= 80 && a.value_dtype != Dtype::kFloat64;
}

// Whether channels move in packs of 16 bytes: those of a group and an offset group are whole ones,
// and `arrays` are aligned.
inline bool moves_packs(const ConvCudaArguments& a, std::initializer_list<const void*> arrays) {
  const int64_t pack = static_cast<int64_t>(16 / element_bytes(a.value_dtype));
  const auto whole = [&](int64_t channels) { return channels % pack == 0; };
  const auto aligned = [](const void* array) {
    return reinterpret_cast<uintptr_t>(array) % 16 == 0;
  };
  return whole(a.channels / a.groups) && whole(a.channels / a.offset_groups) &&
         whole(a.out_channels / a.groups) && std::all_of(arrays.begin(), arrays.end(), aligned);
}

// Whether samples of halves keep twice a half's digits. A sample that is rounded once errs by 2^-9
// at most (bfloat16), which sums of many terms average out, seen beside the largest of many
// results; in short sums, or few results that may all have cancelled, it shows. There a second
// product costs next to nothing.
inline bool keeps_all_digits(const ConvCudaArguments& a) {
  constexpr int64_t kLongSum = 256, kManyResults = 1 << 14;
  return a.channels / a.groups * a.kernel_h * a.kernel_w < kLongSum ||
         a.batch * a.out_height * a.out_width * a.out_channels < kManyResults;
}

// A block's outputs and output channels, and what it needs.
struct ConvTileSize {
  int rows, columns;
  size_t shared_bytes;
};

// The tile among `tiles` that is through first; the last has to fit every GPU. The figures are
// an H200's cycles for 16 channels of one point.
inline ConvTileSize fastest_tile(const ConvCudaArguments& a, const Gpu& gpu,
                                 std::initializer_list<ConvTileSize> tiles) {
  const int64_t outputs = a.batch * a.out_height * a.out_width, outs = a.out_channels / a.groups;
  const auto up = [](int64_t n, int64_t size) { return (n + size - 1) / size; };
  ConvTileSize best = *(tiles.end() - 1);
  double least = 0;
  for (const ConvTileSize& tile : tiles) {
    if (tile.shared_bytes > gpu.shared_bytes) continue;
    const double product = tile.rows * tile.columns / 80.0;
    const double reads = tile.rows * 2.0 + tile.columns * 0.5;  // pixels and weights
    const double cycles = 40 + product + reads;
    const int64_t blocks = up(outputs, tile.rows) * up(outs, tile.columns) * a.groups;
    const double time = cycles * static_cast<double>(up(blocks, gpu.multiprocessors));
    if (least == 0 || time < least) {
      best = tile;
      least = time;
    }
  }
  return best;
}

}  // namespace deform::kernels
