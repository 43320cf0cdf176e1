// Deformable convolution on the CPU around a matrix product that is somebody else's: raw pointers,
// no torch.
//
// A tile is `count` outputs from `first` on, counted over the batch. Its columns are
// [groups][count][points][channels / groups] of the compute type: float, or double for double.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/dtype.h"

namespace deform::kernels {

// All arrays are contiguous and none that is written overlaps another. REQUIRES: every size >= 1
// but for the batch, height * width < 2^31, channels a multiple of groups and of offset_groups.
struct ConvCpuArguments {
  const void* value;   // [batch, height, width, channels] of value_dtype
  const void* offset;  // [batch, out_height, out_width, offset_groups, points, 2]: dy, dx
  const void* mask;    // [batch, out_height, out_width, offset_groups, points], or null
  int64_t height, width, channels, out_height, out_width, kernel_h, kernel_w;
  int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
  Dtype value_dtype, offset_dtype, mask_dtype;
};

// Each function exists for each instruction set; the AVX variants on x86-64 only, for a processor
// with AVX2, FMA and F16C, or with AVX-512 F, BW, VL and DQ. Calls that write different elements
// may run at the same time.
//
// ..._sample: the samples, times mask, of outputs [begin, end) of the tile, into its columns.
using ConvSampleCpuKernel = void (*)(const ConvCpuArguments& arguments, int64_t first,
                                     int64_t count, int64_t begin, int64_t end, void* columns);
// ..._points: from the columns' gradient that of offset and, where there is one, of mask, for
// outputs [begin, end) of the tile, of the types of those.
using ConvPointsCpuKernel = void (*)(const ConvCpuArguments& arguments, int64_t first,
                                     int64_t count, int64_t begin, int64_t end,
                                     const void* by_columns, void* by_offset, void* by_mask);
// ..._scatter: adds the tile's part to value's gradient, of the compute type, in channels
// [begin, end) only, output by output.
using ConvScatterCpuKernel = void (*)(const ConvCpuArguments& arguments, int64_t first,
                                      int64_t count, int64_t begin, int64_t end,
                                      const void* by_columns, void* by_value);

#define DEFORM_CONV_CPU_KERNELS(set)                                                              \
  void conv_sample_cpu_##set(const ConvCpuArguments& arguments, int64_t first, int64_t count,     \
                             int64_t begin, int64_t end, void* columns);                          \
  void conv_points_cpu_##set(const ConvCpuArguments& arguments, int64_t first, int64_t count,     \
                             int64_t begin, int64_t end, const void* by_columns, void* by_offset, \
                             void* by_mask);                                                      \
  void conv_scatter_cpu_##set(const ConvCpuArguments& arguments, int64_t first, int64_t count,    \
                              int64_t begin, int64_t end, const void* by_columns, void* by_value)
DEFORM_CONV_CPU_KERNELS(plain);
DEFORM_CONV_CPU_KERNELS(avx2);
DEFORM_CONV_CPU_KERNELS(avx512);
#undef DEFORM_CONV_CPU_KERNELS

}  // namespace deform::kernels
