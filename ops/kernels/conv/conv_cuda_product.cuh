// Products of two matrices that pass through shared memory in slices, on tensor cores with sums in
// float32. Halves multiply as they are; floats as sums of two TF32 numbers each, in three products,
// which keeps float32's accuracy but makes a NaN of an infinity.
#pragma once

#include "conv/conv_cuda_mma.cuh"

namespace deform::kernels::cuda {

constexpr int kConvThreads = 256, kConvWarps = kConvThreads / 32;

// A slice's rows along the sum take as many bytes.
constexpr int kSliceBytes = 128;
template <class T>
constexpr int kSlice = kSliceBytes / static_cast<int>(sizeof(T));
// Elements that move at once, and numbers that one instruction sums over.
template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));
template <class T>
constexpr int kStep = 2 * kPack<T>;
template <class T>
constexpr int kSteps = kSlice<T> / kStep<T>;

// Rows of a matrix in shared memory, in packs of 16 bytes. Both ways eight neighbouring rows'
// packs, or words, fall on different banks: swizzled for ldmatrix, padded for single words.
template <int kBytes>
struct SwizzledRows {
  static constexpr int kRowBytes = kBytes;
  __device__ static int at(int row, int pack) { return row * kBytes + ((pack ^ (row & 7)) << 4); }
};
template <int kBytes>
struct PaddedRows {
  static constexpr int kRowBytes = kBytes + 32;
  __device__ static int at(int row, int pack) { return row * kRowBytes + (pack << 4); }
};

// Rows along the sum: a row of the product, or a column, by kSlice numbers.
using RowsAlong = SwizzledRows<kSliceBytes>;

// Rows across the sum: kSlice of them, each kWidth rows or columns of the product wide.
template <class T, int kWidth>
struct RowsAcrossOf {
  using type = SwizzledRows<kWidth * 2>;
};
template <int kWidth>
struct RowsAcrossOf<float, kWidth> {
  using type = PaddedRows<kWidth * 4>;
};
template <class T, int kWidth>
using RowsAcross = typename RowsAcrossOf<T, kWidth>::type;

// Fragments at step `step` of a slice: of 16 rows of a from `row` on, and of 16 columns of b from
// `column` on, as two of 8.
template <class T, class Rows>
struct Fragments {
  static __device__ void load_a(unsigned (&to)[4], unsigned tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_transposed(to,
                    tile + Rows::at(step * 16 + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
  }
  static __device__ void load_b(unsigned (&to)[4], unsigned tile, int column, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_transposed(to, tile + Rows::at(step * 16 + lane % 16, column / 8 + lane / 16));
  }
};
template <int kBytes>
struct Fragments<float, PaddedRows<kBytes>> {
  static constexpr int kRow = PaddedRows<kBytes>::kRowBytes;
  static __device__ unsigned first(unsigned tile, int across, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return tile + (step * 8 + lane % 4) * kRow + (across + lane / 4) * 4;
  }
  static __device__ void load_a(unsigned (&to)[4], unsigned tile, int row, int step) {
    const unsigned at = first(tile, row, step);
    to[0] = load_shared(at);
    to[1] = load_shared(at + 32);
    to[2] = load_shared(at + 4 * kRow);
    to[3] = load_shared(at + 4 * kRow + 32);
  }
  static __device__ void load_b(unsigned (&to)[4], unsigned tile, int column, int step) {
    const unsigned at = first(tile, column, step);
    to[0] = load_shared(at);
    to[1] = load_shared(at + 4 * kRow);
    to[2] = load_shared(at + 32);
    to[3] = load_shared(at + 4 * kRow + 32);
  }
};
// Along the sum a matrix of ldmatrix is 8 rows by 8 halves or 4 floats.
struct FragmentsAlong {
  static __device__ void load_a(unsigned (&to)[4], unsigned tile, int row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_matrices(to, tile + RowsAlong::at(row + lane % 16, step * 2 + lane / 16));
  }
  static __device__ void load_b(unsigned (&to)[4], unsigned tile, int column, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    load_matrices(to,
                  tile + RowsAlong::at(column + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
  }
};

// A warp's kRows x kColumns numbers of a product. A and B load the fragments.
template <class T, int kRows, int kColumns, class A, class B>
class WarpProduct {
 public:
  static_assert(kRows % 16 == 0 && kColumns % 16 == 0);

  float sum[kRows / 16][kColumns / 8][4];

  __device__ void clear() {
#pragma unroll
    for (auto& row : sum) {
#pragma unroll
      for (auto& part : row) part[0] = part[1] = part[2] = part[3] = 0.f;
    }
  }

  __device__ void begin_slice() {}
  // kSplit: a's numbers are the sums of those at `a` and at `rest`.
  template <bool kSplit>
  __device__ void add(unsigned a, unsigned rest, unsigned b, int row, int column, int step) {
    unsigned of_a[kRows / 16][4], of_rest[kSplit ? kRows / 16 : 1][4];
#pragma unroll
    for (int y = 0; y < kRows / 16; ++y) {
      A::load_a(of_a[y], a, row + 16 * y, step);
      if constexpr (kSplit) A::load_a(of_rest[y], rest, row + 16 * y, step);
    }
#pragma unroll
    for (int x = 0; x < kColumns / 16; ++x) {
      unsigned of_b[4];
      B::load_b(of_b, b, column + 16 * x, step);
#pragma unroll
      for (int y = 0; y < kRows / 16; ++y) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float(&to)[4] = sum[y][2 * x + half];
          multiply_add(to, of_a[y], of_b[2 * half], of_b[2 * half + 1], T());
          if constexpr (kSplit) {
            multiply_add(to, of_rest[y], of_b[2 * half], of_b[2 * half + 1], T());
          }
        }
      }
    }
  }
  __device__ void end_slice() {}

  // Calls visit(row, column, first, second) for each two neighbouring columns that the thread has,
  // counted within the warp's part.
  template <class Visit>
  __device__ void visit(Visit visit) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int y = 0; y < kRows / 16; ++y) {
#pragma unroll
      for (int x = 0; x < kColumns / 8; ++x) {
        const float(&part)[4] = sum[y][x];
        visit(16 * y + lane / 4, 8 * x + lane % 4 * 2, part[0], part[1]);
        visit(16 * y + lane / 4 + 8, 8 * x + lane % 4 * 2, part[2], part[3]);
      }
    }
  }
};

// Of floats. Tensor cores cut sums off instead of rounding them, so a slice is summed apart.
template <int kRows, int kColumns, class A, class B>
class WarpProduct<float, kRows, kColumns, A, B>
    : public WarpProduct<__half, kRows, kColumns, A, B> {
 public:
  using Base = WarpProduct<__half, kRows, kColumns, A, B>;
  using Base::sum;

  __device__ void begin_slice() { of_slice_.clear(); }
  template <bool kSplit>
  __device__ void add(unsigned a, unsigned, unsigned b, int row, int column, int step) {
    unsigned high_a[kRows / 16][4], low_a[kRows / 16][4];
#pragma unroll
    for (int y = 0; y < kRows / 16; ++y) {
      A::load_a(high_a[y], a, row + 16 * y, step);
#pragma unroll
      for (int i = 0; i < 4; ++i) split_tf32(high_a[y][i], high_a[y][i], low_a[y][i]);
    }
#pragma unroll
    for (int x = 0; x < kColumns / 16; ++x) {
      unsigned high[4], low[4];
      B::load_b(high, b, column + 16 * x, step);
#pragma unroll
      for (int i = 0; i < 4; ++i) split_tf32(high[i], high[i], low[i]);
        // One sum's three products apart from each other, so that none waits for the one before.
#pragma unroll
      for (int product = 0; product < 3; ++product) {
#pragma unroll
        for (int y = 0; y < kRows / 16; ++y) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const unsigned(&of_a)[4] = product == 0 ? low_a[y] : high_a[y];
            const unsigned(&of_b)[4] = product == 1 ? low : high;
            multiply_add(of_slice_.sum[y][2 * x + half], of_a, of_b[2 * half], of_b[2 * half + 1],
                         0.f);
          }
        }
      }
    }
  }
  __device__ void end_slice() {
#pragma unroll
    for (int y = 0; y < kRows / 16; ++y) {
#pragma unroll
      for (int x = 0; x < kColumns / 8; ++x) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[y][x][i] += of_slice_.sum[y][x][i];
      }
    }
  }

 private:
  Base of_slice_;
};

}  // namespace deform::kernels::cuda
