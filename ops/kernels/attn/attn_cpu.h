// Single-scale deformable sampling on the CPU: raw pointers, no torch.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "attn/attn_grid.h"
#include "common/dtype.h"

namespace deform::kernels {

// All arrays are contiguous and none that is written overlaps another. REQUIRES: every size >= 1
// but for batch and outputs, height * width < 2^31, groups * channels < 2^32, groups * points at
// most 2^30, row_elements >= groups * points * 3.
struct AttnCpuArguments {
  const void* value;        // [batch, height, width, groups, channels] of value_dtype
  const void* offset_mask;  // [batch, out_height, out_width, row_elements] of offset_dtype; a row
                            // is groups of points of dx, dy, weight, and elements that don't count
  int64_t height, width, out_height, out_width, groups, channels, row_elements;
  AttnGrid grid;
  Dtype value_dtype, offset_dtype;
  bool softmax;  // normalise each group's weights first
};

// Bytes of scratch, aligned to 64, that one call of a kernel needs.
size_t attn_cpu_scratch_bytes(const AttnCpuArguments& arguments);
size_t attn_backward_cpu_scratch_bytes(const AttnCpuArguments& arguments);

// Writes outputs [begin, end) of the batch * out_height * out_width many in `output` [batch,
// out_height, out_width, groups, channels] of value_dtype. Calls on disjoint ranges may run at the
// same time, each with scratch of its own. The AVX variants exist on x86-64 only and need a
// processor with AVX2, FMA and F16C; or with AVX-512 F, BW, VL and DQ.
using AttnCpuKernel = void (*)(const AttnCpuArguments& arguments, void* output, int64_t begin,
                               int64_t end, void* scratch);
void attn_cpu_plain(const AttnCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                    void* scratch);
void attn_cpu_avx2(const AttnCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                   void* scratch);
void attn_cpu_avx512(const AttnCpuArguments& arguments, void* output, int64_t begin, int64_t end,
                     void* scratch);

// What a backward kernel reads beside the operands, and what it writes.
struct AttnCpuGradients {
  const void* output;  // the result's gradient: as `output` above
  // Like value, but of float, or of double for double; holds zeros, to which gradients are added.
  void* value;
  void* offset_mask;  // like offset_mask; elements that don't count aren't written
};

// Adds up the gradients of groups [begin, end) of the batch * groups many, one after the other: a
// group's gradients depend on no other's, so results are the same however groups are split among
// threads. Otherwise as above.
using AttnBackwardCpuKernel = void (*)(const AttnCpuArguments& arguments,
                                       const AttnCpuGradients& gradients, int64_t begin,
                                       int64_t end, void* scratch);
void attn_backward_cpu_plain(const AttnCpuArguments& arguments, const AttnCpuGradients& gradients,
                             int64_t begin, int64_t end, void* scratch);
void attn_backward_cpu_avx2(const AttnCpuArguments& arguments, const AttnCpuGradients& gradients,
                            int64_t begin, int64_t end, void* scratch);
void attn_backward_cpu_avx512(const AttnCpuArguments& arguments, const AttnCpuGradients& gradients,
                              int64_t begin, int64_t end, void* scratch);

}  // namespace deform::kernels
