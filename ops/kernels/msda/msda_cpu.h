// Multi-scale deformable attention on the CPU: raw pointers, no torch.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"

namespace deform::kernels {

// One level of the value: height x width pixels in rows [first_row, first_row + height * width).
struct MsdaLevel {
  int32_t height;
  int32_t width;
  int32_t first_row;
};

// All arrays are contiguous and none that is written overlaps another. REQUIRES: every size >= 1
// but for batch and queries, rows < 2^31, heads * channels < 2^32, levels * points < 2^29, and each
// level inside [0, rows).
struct MsdaCpuArguments {
  const void* value;       // [batch, rows, heads, channels] of value_dtype
  const MsdaLevel* level;  // [levels]
  const void* locations;   // [batch, queries, heads, levels, points, 2]: x, y in [0, 1]
  const void* weights;     // [batch, queries, heads, levels, points]; logits with `softmax`
  int64_t rows, queries, heads, channels, levels, points;
  Dtype value_dtype, locations_dtype, weights_dtype;
  bool softmax;  // normalise the weights over levels * points first
};

// Bytes of scratch, aligned to 64, that one call of a kernel needs.
size_t msda_cpu_scratch_bytes(const MsdaCpuArguments& arguments);
size_t msda_backward_cpu_scratch_bytes(const MsdaCpuArguments& arguments, bool pack_heads);

// Writes outputs [begin, end) of the batch * queries many in `output` [batch, queries, heads,
// channels] of value_dtype. Calls on disjoint ranges may run at the same time, each with scratch of
// its own. The AVX variants exist on x86-64 only and need a processor with AVX2, FMA and F16C; or
// with AVX-512 F, BW, VL and DQ.
using MsdaCpuKernel = void (*)(const MsdaCpuArguments& arguments, void* output, int64_t begin,
                               int64_t end, void* scratch);
void msda_cpu_plain(const MsdaCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                    void* scratch);
void msda_cpu_avx2(const MsdaCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                   void* scratch);
void msda_cpu_avx512(const MsdaCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                     void* scratch);

// What a backward kernel reads beside the operands, and what it writes. Each is of the shape and
// type of what it is the gradient of.
struct MsdaCpuGradients {
  const void* output;
  void* value;
  void* locations;
  void* weights;
  // Copy the pixels of a head into scratch first, side by side, and add up their gradients there.
  // In value they stand a whole row apart, on which caches work at a fraction of their size. Pays
  // where points are many; results are the same.
  bool pack_heads;
};

// Writes the gradients of heads [begin, end) of the batch * heads many, all queries one after the
// other: a head's gradients depend on no other's, so results are the same however heads are split
// among threads. Otherwise as above.
using MsdaBackwardCpuKernel = void (*)(const MsdaCpuArguments& arguments,
                                       const MsdaCpuGradients& gradients, int64_t begin,
                                       int64_t end, void* scratch);
void msda_backward_cpu_plain(const MsdaCpuArguments& arguments, const MsdaCpuGradients& gradients,
                             int64_t begin, int64_t end, void* scratch);
void msda_backward_cpu_avx2(const MsdaCpuArguments& arguments, const MsdaCpuGradients& gradients,
                            int64_t begin, int64_t end, void* scratch);
void msda_backward_cpu_avx512(const MsdaCpuArguments& arguments, const MsdaCpuGradients& gradients,
                              int64_t begin, int64_t end, void* scratch);

}  // namespace deform::kernels
