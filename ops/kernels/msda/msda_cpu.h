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

// All arrays are contiguous and none overlaps `output`. REQUIRES: every size >= 1 but for batch and
// queries, rows < 2^31, heads * channels < 2^32, levels * points < 2^30, and each level inside
// [0, rows).
struct MsdaCpuArguments {
  const void* value;       // [batch, rows, heads, channels] of value_dtype
  const MsdaLevel* level;  // [levels]
  const void* locations;   // [batch, queries, heads, levels, points, 2]: x, y in [0, 1]
  const void* weights;     // [batch, queries, heads, levels, points]; logits with `softmax`
  void* output;            // [batch, queries, heads, channels] of value_dtype
  int64_t rows, queries, heads, channels, levels, points;
  Dtype value_dtype, locations_dtype, weights_dtype;
  bool softmax;  // normalise the weights over levels * points first
};

// Bytes of scratch that one call of a kernel needs, aligned to 64.
size_t msda_cpu_scratch_bytes(int64_t heads, int64_t levels, int64_t points);

// Computes outputs [begin, end) of the batch * queries many. Calls on disjoint ranges may run at
// the same time, each with scratch of its own. The AVX variants exist on x86-64 only and need a
// processor with AVX2, FMA and F16C; or with AVX-512 F, BW, VL and DQ.
using MsdaCpuKernel = void (*)(const MsdaCpuArguments& arguments, int64_t begin, int64_t end,
                               void* scratch);
void msda_cpu_plain(const MsdaCpuArguments& arguments, int64_t begin, int64_t end, void* scratch);
void msda_cpu_avx2(const MsdaCpuArguments& arguments, int64_t begin, int64_t end, void* scratch);
void msda_cpu_avx512(const MsdaCpuArguments& arguments, int64_t begin, int64_t end, void* scratch);

}  // namespace deform::kernels
