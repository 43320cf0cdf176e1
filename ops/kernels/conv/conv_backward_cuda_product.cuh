// What the backward kernels multiply with: a block's tile of kTile x kTile sums over rows that both
// matrices have in shared memory, some at a time. On tensor cores from SM 8.0 on, with sums in
// float32, floats as two TF32 numbers each; else by multiply-adds in the type that sums have.
#pragma once

#include "conv/conv_cuda_fma.cuh"
#include "conv/conv_cuda_product.cuh"

namespace deform::kernels::cuda {

constexpr int kTile = 64;
static_assert(kTile == kFmaTile && kConvThreads == kFmaThreads);

// A block's tile of the product, of the type that sums have.
template <class R>
struct ProductTile {
  R at[kTile][kTile + 4];
};

template <class T, bool kTensorCores>
class TileProduct;

template <class T>
class TileProduct<T, true> {
 public:
  static constexpr int kRows = 2 * kStep<T>;  // of each matrix at a time
  using Rows = RowsAcross<T, kTile>;
  struct alignas(128) Matrices {
    char a[kRows * Rows::kRowBytes], b[kRows * Rows::kRowBytes];
  };

  __device__ void clear() { product_.clear(); }

  __device__ static void set_a(Matrices& m, int row, int i, float x) { set(m.a, row, i, x); }
  __device__ static void set_b(Matrices& m, int row, int i, float x) { set(m.b, row, i, x); }

  // sum += a^T b
  __device__ void add(const Matrices& m) {
    product_.begin_slice();
#pragma unroll
    for (int step = 0; step < kRows / kStep<T>; ++step) {
      product_.template add<false>(shared_address(m.a), 0, shared_address(m.b), first_row(),
                                   first_column(), step);
    }
    product_.end_slice();
  }

  __device__ void store(ProductTile<float>& tile) const {
    product_.visit([&](int row, int column, float x, float y) {
      tile.at[first_row() + row][first_column() + column] = x;
      tile.at[first_row() + row][first_column() + column + 1] = y;
    });
  }

 private:
  static constexpr int kWarpRows = 16, kWarpColumns = 32;
  static_assert(kWarpRows * kWarpColumns * kConvWarps == kTile * kTile);

  __device__ static void set(char* matrix, int row, int i, float x) {
    reinterpret_cast<T*>(matrix + Rows::at(row, i / kPack<T>))[i % kPack<T>] = narrow<T>(x);
  }
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int first_row() { return warp() % 4 * kWarpRows; }
  __device__ static int first_column() { return warp() / 4 * kWarpColumns; }

  WarpProduct<T, kWarpRows, kWarpColumns, Fragments<T, Rows>, Fragments<T, Rows>> product_;
};

template <class T>
class TileProduct<T, false> {
 public:
  using R = Real<T>;
  static constexpr int kRows = kFmaSlice;
  using Matrices = FmaSlices<R>;

  __device__ void clear() { product_ = {}; }
  __device__ static void set_a(Matrices& m, int row, int i, R x) { m.a[row][i] = x; }
  __device__ static void set_b(Matrices& m, int row, int i, R x) { m.b[row][i] = x; }
  __device__ void add(const Matrices& m) { product_.add(m); }
  __device__ void store(ProductTile<R>& tile) const {
#pragma unroll
    for (int y = 0; y < FmaProduct<R>::kSide; ++y) {
#pragma unroll
      for (int x = 0; x < FmaProduct<R>::kSide; ++x) {
        tile.at[product_.row() + y][product_.column() + x] = product_.sum[y][x];
      }
    }
  }

 private:
  FmaProduct<R> product_;
};

}  // namespace deform::kernels::cuda
