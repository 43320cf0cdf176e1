// Tensor-core and copy instructions of SM 8.0 and later, as PTX: the run-time compiler has no
// mma.h. Fragments are those of mma.sync: thread 4 g + t of a warp holds, of a sum, columns 2 t and
// 2 t + 1 of rows g and g + 8.
#pragma once

#include "common/elements_cuda.cuh"

namespace deform::kernels::cuda {

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Starts a copy of 16 bytes to shared memory; zeros where there is nothing to copy. Both places
// have to be aligned to 16 bytes.
__device__ inline void copy_16(unsigned to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(exists ? 16 : 0)
               : "memory");
}
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all groups of copies but the last kLeft that were ended.
template <int kLeft>
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// Four matrices of 8 rows of 16 bytes; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(unsigned (&to)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
// The same of halves, each matrix transposed.
__device__ inline void load_transposed(unsigned (&to)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}
__device__ inline unsigned load_shared(unsigned address) {
  unsigned x;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
  return x;
}

// sum += a b: of 16 x 16 and 16 x 8 halves, or 16 x 8 and 8 x 8 TF32 numbers.
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1, __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0,
                                    unsigned b1, float) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A float as the sum of two TF32 numbers, to 2^-22 of it. An infinity becomes a NaN in products.
__device__ inline void split_tf32(unsigned x, unsigned& high, unsigned& low) {
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(__uint_as_float(x)));
  const float rest = __uint_as_float(x) - __uint_as_float(high);
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(rest));
}

// Two halves as one word, the first in the lower half.
__device__ inline unsigned pack_word(float low, float high, __half) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline unsigned pack_word(float low, float high, __nv_bfloat16) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ inline void unpack_word(unsigned word, float& low, float& high, __half) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
      : "=f"(low), "=f"(high)
      : "r"(word));
}
__device__ inline void unpack_word(unsigned word, float& low, float& high, __nv_bfloat16) {
  low = __uint_as_float(word << 16);
  high = __uint_as_float(word & 0xffff0000u);
}

// 16 bytes of elements as numbers, and back.
__device__ inline void unpack(uint4 words, float (&x)[4], float) {
  x[0] = __uint_as_float(words.x);
  x[1] = __uint_as_float(words.y);
  x[2] = __uint_as_float(words.z);
  x[3] = __uint_as_float(words.w);
}
template <class T>
__device__ inline void unpack(uint4 words, float (&x)[8], T) {
  unpack_word(words.x, x[0], x[1], T());
  unpack_word(words.y, x[2], x[3], T());
  unpack_word(words.z, x[4], x[5], T());
  unpack_word(words.w, x[6], x[7], T());
}
__device__ inline uint4 pack(const float (&x)[4], float) {
  return {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
          __float_as_uint(x[3])};
}
template <class T>
__device__ inline uint4 pack(const float (&x)[8], T) {
  return {pack_word(x[0], x[1], T()), pack_word(x[2], x[3], T()), pack_word(x[4], x[5], T()),
          pack_word(x[6], x[7], T())};
}

}  // namespace deform::kernels::cuda
