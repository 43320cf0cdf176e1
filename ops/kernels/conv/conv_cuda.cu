#include "conv/conv_cuda.h"

#include <type_traits>

#include "common/launch_cuda.h"
#include "conv/conv_cuda_fma.cuh"
#include "conv/conv_cuda_kernel.cuh"
#include "conv/conv_cuda_request.h"
#include "conv/conv_cuda_tiles.h"

namespace deform::kernels {
namespace {

// In code for GPUs before SM 8.0 it is empty and never launched.
template <class T, int kRows, int kColumns, bool kVector, bool kSplit>
__global__ void __launch_bounds__(cuda::kConvThreads,
                                  (cuda::ConvTile<T, kRows, kColumns, kSplit>::kBlocksAtOnce))
    conv_kernel(const ConvCudaArguments a, const T* bias, T* result) {
#if __CUDA_ARCH__ >= 800
  cuda::conv_block<T, kRows, kColumns, kVector, kSplit>(a, bias, result);
#endif
}

template <class T>
__global__ void __launch_bounds__(cuda::kFmaThreads)
    conv_fma_kernel(const ConvCudaArguments a, const T* bias, T* result) {
  cuda::conv_fma_block<T>(a, bias, result);
}

template <int kOutputs, int kOutChannels>
struct Tile {
  static constexpr int kRows = kOutputs, kColumns = kOutChannels;
};

// A call on its way to the kernel that suits it.
template <class T>
struct Launcher {
  const ConvCudaArguments& a;
  const T* bias;
  T* output;
  const CudaLaunch& where;

  const char* launch() const {
    const Gpu& gpu = where.gpu;
    if constexpr (!std::is_same_v<T, double>) {
      constexpr bool kHalf = sizeof(T) == 2;
      if (on_tensor_cores(a, gpu)) {
        if (!moves_packs(a, {a.value, a.weight, output}))
          return launch_tile<64, 64, false, kHalf>();
        if (kHalf && keeps_all_digits(a)) return launch_tile<64, 64, true, kHalf>();
        if constexpr (kHalf) {
          return launch_fastest<Tile<128, 256>, Tile<64, 256>, Tile<32, 256>, Tile<128, 128>,
                                Tile<64, 128>, Tile<32, 128>, Tile<128, 64>, Tile<32, 64>>(gpu);
        } else {
          return launch_fastest<Tile<64, 256>, Tile<64, 128>, Tile<32, 128>, Tile<64, 64>>(gpu);
        }
      }
    }
    return launch_fma();
  }

  dim3 blocks(int rows, int columns) const {
    const auto tiles = [](int64_t size, int of_tile) {
      return static_cast<unsigned>((size + of_tile - 1) / of_tile);
    };
    return dim3(tiles(a.batch * a.out_height * a.out_width, rows),
                tiles(a.out_channels / a.groups, columns), static_cast<unsigned>(a.groups));
  }

  template <class... Tiles>
  const char* launch_fastest(const Gpu& gpu) const {
    const ConvTileSize chosen =
        fastest_tile(a, gpu,
                     {{Tiles::kRows, Tiles::kColumns,
                       cuda::ConvTile<T, Tiles::kRows, Tiles::kColumns, false>::kSharedBytes}...});
    const char* failure = nullptr;
    const auto launch_if_chosen = [&](auto tile) {
      constexpr int kRows = decltype(tile)::kRows, kColumns = decltype(tile)::kColumns;
      if (chosen.rows == kRows && chosen.columns == kColumns) {
        failure = launch_tile<kRows, kColumns, true, false>();
      }
    };
    (launch_if_chosen(Tiles()), ...);
    return failure;
  }

  template <int kRows, int kColumns, bool kVector, bool kSplit>
  const char* launch_tile() const {
    const auto request = [&] {
      return conv_request(a, "conv/conv_jit.cuh", "conv",
                          {{"DEFORM_ROWS", kRows},
                           {"DEFORM_COLUMNS", kColumns},
                           {"DEFORM_PACKS", kVector},
                           {"DEFORM_SPLIT", kSplit}});
    };
    return cuda::launch(where, conv_kernel<T, kRows, kColumns, kVector, kSplit>, request,
                        {blocks(kRows, kColumns), cuda::kConvThreads,
                         cuda::ConvTile<T, kRows, kColumns, kSplit>::kSharedBytes},
                        a, bias, output);
  }

  const char* launch_fma() const {
    const auto request = [&] { return conv_request(a, "conv/conv_jit.cuh", "conv_fma", {}); };
    return cuda::launch(where, conv_fma_kernel<T>, request,
                        {blocks(cuda::kFmaTile, cuda::kFmaTile), cuda::kFmaThreads, 0}, a, bias,
                        output);
  }
};

}  // namespace

const char* conv_cuda(const ConvCudaArguments& a, const void* bias, void* output,
                      const CudaLaunch& where) {
  return cuda::visit_element(a.value_dtype, [&](auto element) {
    using T = decltype(element);
    return Launcher<T>{a, static_cast<const T*>(bias), static_cast<T*>(output), where}.launch();
  });
}

}  // namespace deform::kernels
