// The product of two matrices that pass through shared memory in slices: a block's tile of kTile x
// kTile numbers. Halves multiply on tensor cores and are summed in float32; float and double by
// fused multiply-adds, never in TF32.
#pragma once

#include <mma.h>

#include "common/elements_cuda.cuh"

namespace deform::kernels::cuda {

constexpr int kConvThreads = 256;
constexpr int kTile = 64;

// Numbers that are multiplied at once: a slice has as many rows of each matrix.
template <class T>
constexpr int kSlice = sizeof(T) == 2 ? 32 : 16;

// Rows are padded, so that neighbouring rows start on other banks; still every 16th element of a
// row of halves lies on 32 bytes, as tensor cores load them.
template <class T>
struct alignas(32) Slices {
  static constexpr int kRow = kTile + (sizeof(T) == 2 ? 8 : 4);
  T a[kSlice<T>][kRow];
  T b[kSlice<T>][kRow];
  // Of halves: what a's numbers lack of those that they stand for.
  T rest[sizeof(T) == 2 ? kSlice<T> : 1][kRow];

  // a's number, kept in twice the digits that a half has: a sample isn't rounded before it is
  // multiplied, so that sums that cancel keep their accuracy.
  __device__ void set_sample(int i, int j, Real<T> sample) {
    a[i][j] = narrow<T>(sample);
    if constexpr (sizeof(T) == 2) {
      const float lacking = sample - widen(a[i][j]);
      rest[i][j] = narrow<T>(isfinite(lacking) ? lacking : 0.f);
    }
  }
};

// A block's tile of the product, of the type that sums have.
template <class R>
struct alignas(32) ProductTile {
  static constexpr int kRow = kTile + 4;
  R at[kTile][kRow];
};

// sum += a^T b, each thread with 4 x 4 numbers of the tile. kSamples: a is set by set_sample.
template <class T>
class Product {
 public:
  __device__ void clear() {
#pragma unroll
    for (int y = 0; y < kOfThread; ++y) {
#pragma unroll
      for (int x = 0; x < kOfThread; ++x) sum_[y][x] = T(0);
    }
  }

  template <bool kSamples>
  __device__ void add(const Slices<T>& s) {
#pragma unroll
    for (int i = 0; i < kSlice<T>; ++i) {
      T a[kOfThread], b[kOfThread];
#pragma unroll
      for (int j = 0; j < kOfThread; ++j) {
        a[j] = s.a[i][row() + j];
        b[j] = s.b[i][column() + j];
      }
#pragma unroll
      for (int y = 0; y < kOfThread; ++y) {
#pragma unroll
        for (int x = 0; x < kOfThread; ++x) sum_[y][x] += a[y] * b[x];
      }
    }
  }

  __device__ void store(ProductTile<T>& tile) const {
#pragma unroll
    for (int y = 0; y < kOfThread; ++y) {
#pragma unroll
      for (int x = 0; x < kOfThread; ++x) tile.at[row() + y][column() + x] = sum_[y][x];
    }
  }

 private:
  static constexpr int kOfThread = 4;  // rows and columns
  static_assert(kTile * kTile == kConvThreads * kOfThread * kOfThread);

  __device__ static int row() { return static_cast<int>(threadIdx.x) / 16 * kOfThread; }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % 16 * kOfThread; }

  T sum_[kOfThread][kOfThread];
};

// The same on tensor cores: each of the block's 8 warps has 16 rows and 32 columns of the tile.
template <class T>
class HalfProduct {
 public:
  __device__ void clear() {
#pragma unroll
    for (auto& part : sum_) nvcuda::wmma::fill_fragment(part, 0.f);
  }

  template <bool kSamples>
  __device__ void add(const Slices<T>& s) {
    namespace wmma = nvcuda::wmma;
#pragma unroll
    for (int i = 0; i < kSlice<T>; i += kSide) {
      wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, T, wmma::col_major> a, rest;
      wmma::load_matrix_sync(a, &s.a[i][row()], Slices<T>::kRow);
      if constexpr (kSamples) wmma::load_matrix_sync(rest, &s.rest[i][row()], Slices<T>::kRow);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, T, wmma::row_major> b;
        wmma::load_matrix_sync(b, &s.b[i][column(part)], Slices<T>::kRow);
        wmma::mma_sync(sum_[part], a, b, sum_[part]);
        if constexpr (kSamples) wmma::mma_sync(sum_[part], rest, b, sum_[part]);
      }
    }
  }

  __device__ void store(ProductTile<float>& tile) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      nvcuda::wmma::store_matrix_sync(&tile.at[row()][column(part)], sum_[part],
                                      ProductTile<float>::kRow, nvcuda::wmma::mem_row_major);
    }
  }

 private:
  static constexpr int kSide = 16, kParts = 2;
  static_assert(kConvThreads / 32 * kParts * kSide * kSide == kTile * kTile);

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int row() { return warp() / 2 * kSide; }
  __device__ static int column(int part) { return (warp() % 2 * kParts + part) * kSide; }

  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kSide, kSide, kSide, float> sum_[kParts];
};

template <>
class Product<__half> : public HalfProduct<__half> {};
template <>
class Product<__nv_bfloat16> : public HalfProduct<__nv_bfloat16> {};

}  // namespace deform::kernels::cuda
