// The forward kernel on tensor cores: a block has a tile of outputs by output channels of one
// group, and takes channels of one point at a time. Their samples exist in shared memory only;
// while one slice is multiplied, the next one's pixels and the weights of the one after are on
// their way.
//
// Samples of halves are computed in float32 and rounded once, unless kSplit: then they are kept as
// two halves and multiplied twice, which short or small calls are (conv_cuda_tiles.h), where single
// roundings show in the result.
#pragma once

#include "conv/conv_cuda_gather.cuh"

namespace deform::kernels::cuda {

// What a block of the forward kernel has in shared memory.
template <class T, int kRows, int kColumns, bool kSplit>
struct ConvTile {
  using WeightRows = RowsAcross<T, kColumns>;
  static constexpr int kStages = 3;  // of weights
  // A warp's part: of as many warps across the tile as keep it near a square.
  static constexpr int kDown = kRows == 128  ? (kColumns == 256 ? 2 : 4)
                               : kRows == 64 ? (kColumns == 64 ? 4 : 2)
                                             : (kColumns == 256 ? 1 : 2);
  static constexpr int kWarpRows = kRows / kDown, kWarpColumns = kColumns * kDown / kConvWarps;
  static constexpr int kSampleBytes = kRows * kSliceBytes;
  static constexpr int kWeightBytes = kSlice<T> * WeightRows::kRowBytes;
  static constexpr int kPointBytes = kRows * static_cast<int>(sizeof(ConvPoint<float>));

  // From the start: samples (and their rests) of two slices, weights of kStages, two tables of
  // points, the outputs' pictures.
  static constexpr int kWeights = (kSplit ? 4 : 2) * kSampleBytes;
  static constexpr int kPoints = kWeights + kStages * kWeightBytes;
  static constexpr int kPictures = kPoints + 2 * kPointBytes;
  static constexpr int kSharedBytes = kPictures + kRows * 8;

  // At the end the result, in rows that start on different banks.
  static constexpr int kResultRow = kColumns * static_cast<int>(sizeof(T)) + 16;
  static_assert(kRows * kResultRow <= kSharedBytes);

  static constexpr int kBlocksAtOnce = kColumns == 256 ? 1 : 2;  // on a multiprocessor
};

// Grid: tiles of outputs, tiles of a group's output channels, groups. kVector: a group's and an
// offset group's channels, and a group's output channels, are whole packs, and arrays are aligned
// to 16 bytes.
template <class T, int kRows, int kColumns, bool kVector, bool kSplit>
__device__ __forceinline__ void conv_block(const ConvCudaArguments& a, const T* bias, T* result) {
  using Tile = ConvTile<T, kRows, kColumns, kSplit>;
  using Slice = ConvSlice<kSlice<T>>;
  extern __shared__ uint4 conv_shared[];
  char* const shared = reinterpret_cast<char*>(conv_shared);
  const unsigned shared_at = shared_address(shared);
  const auto points = reinterpret_cast<ConvPoint<float>*>(shared + Tile::kPoints);
  const auto pictures = reinterpret_cast<const T**>(shared + Tile::kPictures);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const int64_t group = blockIdx.z;
  const int channels = static_cast<int>(a.channels);
  const int of_group = static_cast<int>(a.channels / a.groups);
  const int outs = static_cast<int>(a.out_channels / a.groups);
  const int first_out = static_cast<int>(blockIdx.y) * kColumns;
  const int64_t first_output = static_cast<int64_t>(blockIdx.x) * kRows;
  const T* const weight = static_cast<const T*>(a.weight) +
                          group * a.kernel_h * a.kernel_w * of_group * outs + first_out;

  // Threads below kRows place the points of an output each.
  const ConvOutput output = thread < kRows ? conv_output(a, first_output + thread) : ConvOutput{};
  if (thread < kRows) {
    pictures[thread] = static_cast<const T*>(a.value) +
                       output.picture * a.height * a.width * a.channels + group * of_group;
  }
  const auto place_points = [&](const Slice& slice) {
    if (thread < kRows && slice.count > 0) {
      points[(slice.place & 1) * kRows + thread] =
          conv_point(a, conv_place<float>(a, output, slice.og, slice.k));
    }
  };

  const auto copy_weights = [&](const Slice& slice, int stage) {
    constexpr int kPacks = kColumns / kPack<T>;
    const int to = Tile::kWeights + stage * Tile::kWeightBytes;
    const T* const from =
        weight + (static_cast<int64_t>(slice.k) * of_group + slice.channel) * outs;
#pragma unroll
    for (int i = 0; i < kSlice<T> * kPacks / kConvThreads; ++i) {
      const int number = i * kConvThreads + thread;
      const int row = number / kPacks, pack = number % kPacks;
      const int left = outs - first_out - pack * kPack<T>;
      const bool exists = row < slice.count && left > 0;
      const T* const first = from + static_cast<int64_t>(row) * outs + pack * kPack<T>;
      const int at = to + Tile::WeightRows::at(row, pack);
      if constexpr (kVector) {
        copy_16(shared_at + at, exists ? first : weight, exists);
      } else {
#pragma unroll
        for (int j = 0; j < kPack<T>; ++j) {
          reinterpret_cast<T*>(shared + at)[j] = exists && j < left ? first[j] : narrow<T>(0.f);
        }
      }
    }
    end_copies();
  };

  // A thread has a pack of kRowsAtOnce-th rows.
  constexpr int kPacksOfRow = kSliceBytes / 16, kRowsAtOnce = kConvThreads / kPacksOfRow;
  constexpr int kPacksOfThread = kRows / kRowsAtOnce;
  const int pack_of_row = thread % kPacksOfRow, first_row = thread / kPacksOfRow;
  const auto load = [&](const Slice& slice, int i) {
    const int row = first_row + i * kRowsAtOnce, channel = pack_of_row * kPack<T>;
    return load_corners<T, kVector>(pictures[row] + slice.channel + channel, channels,
                                    points[(slice.place & 1) * kRows + row], slice.count - channel);
  };
  const auto store = [&](const Slice& slice, int buffer, int i, const CornerPacks& packs) {
    const int row = first_row + i * kRowsAtOnce;
    float sample[kPack<T>];
    interpolate<T>(sample, packs, points[(slice.place & 1) * kRows + row]);
    char* const to =
        shared + (kSplit ? 2 : 1) * buffer * Tile::kSampleBytes + RowsAlong::at(row, pack_of_row);
    store_samples<T, kSplit>(reinterpret_cast<uint4*>(to),
                             reinterpret_cast<uint4*>(to + Tile::kSampleBytes), sample);
  };

  WarpProduct<T, Tile::kWarpRows, Tile::kWarpColumns, FragmentsAlong,
              Fragments<T, typename Tile::WeightRows>>
      product;
  product.clear();
  const int row_of_warp = warp % Tile::kDown * Tile::kWarpRows;
  const int column_of_warp = warp / Tile::kDown * Tile::kWarpColumns;

  Slice slice, next, later;
  slice.begin(a, group);
  next = slice;
  next.advance(a, group);
  later = next;
  later.advance(a, group);
  place_points(slice);
  copy_weights(slice, 0);
  copy_weights(next, 1);
  __syncthreads();
  if (next.place != slice.place) place_points(next);
#pragma unroll
  for (int i = 0; i < kPacksOfThread; ++i) store(slice, 0, i, load(slice, i));

  int buffer = 0, stage = 0;
  while (slice.count > 0) {
    await_copies<1>();
    __syncthreads();
    copy_weights(later, (stage + 2) % Tile::kStages);
    product.begin_slice();
    // The next slice's packs, some at a time: as many as registers hold, each batch behind a part
    // of the products.
    constexpr int kBatch = kPacksOfThread < 2 || Tile::kBlocksAtOnce > 1 ? 1 : 2;
    constexpr int kBatches = kPacksOfThread / kBatch;
    const unsigned samples = shared_at + (kSplit ? 2 : 1) * buffer * Tile::kSampleBytes;
    const unsigned weights = shared_at + Tile::kWeights + stage * Tile::kWeightBytes;
#pragma unroll
    for (int batch = 0; batch < kBatches; ++batch) {
      CornerPacks packs[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) packs[i] = load(next, batch * kBatch + i);
      if (batch == 0 && later.place != next.place) place_points(later);
#pragma unroll
      for (int step = batch * kSteps<T> / kBatches; step < (batch + 1) * kSteps<T> / kBatches;
           ++step) {
        if (step * kStep<T> < slice.count) {
          product.template add<kSplit>(samples, samples + Tile::kSampleBytes, weights, row_of_warp,
                                       column_of_warp, step);
        }
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) store(next, buffer ^ 1, batch * kBatch + i, packs[i]);
    }
    product.end_slice();
    slice = next;
    next = later;
    later.advance(a, group);
    buffer ^= 1;
    stage = stage + 1 == Tile::kStages ? 0 : stage + 1;
  }

  await_copies<0>();
  __syncthreads();
  product.visit([&](int row, int column, float x, float y) {
    row += row_of_warp;
    column += column_of_warp;
    const int64_t channel = group * outs + first_out + column;
    if (bias != nullptr) {
      if (first_out + column < outs) x += widen(bias[channel]);
      if (first_out + column + 1 < outs) y += widen(bias[channel + 1]);
    }
    Pack<T, 2> pair;
    pair.element[0] = narrow<T>(x);
    pair.element[1] = narrow<T>(y);
    *reinterpret_cast<Pack<T, 2>*>(shared + row * Tile::kResultRow +
                                   column * static_cast<int>(sizeof(T))) = pair;
  });
  __syncthreads();
  constexpr int kPacks = kColumns / kPack<T>;
  const int64_t outputs = a.batch * a.out_height * a.out_width;
#pragma unroll 4
  for (int i = thread; i < kRows * kPacks; i += kConvThreads) {
    const int row = i / kPacks, column = i % kPacks * kPack<T>;
    if (first_output + row >= outputs) break;
    const char* const from = shared + row * Tile::kResultRow + column * static_cast<int>(sizeof(T));
    T* const to =
        result + (first_output + row) * a.out_channels + group * outs + first_out + column;
    if constexpr (kVector) {
      if (first_out + column < outs) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
      }
    } else {
      for (int j = 0; j < kPack<T> && first_out + column + j < outs; ++j) {
        to[j] = reinterpret_cast<const T*>(from)[j];
      }
    }
  }
}

}  // namespace deform::kernels::cuda
