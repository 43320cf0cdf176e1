// Multi-scale deformable attention on CUDA: raw device pointers, no torch.
#pragma once

#include <stdint.h>

#include "common/dtype.h"

struct CUstream_st;

namespace deform::kernels {

// All arrays are contiguous device memory and none overlaps `output`. REQUIRES: every size >= 1,
// rows < 2^31, levels * points < 2^30. The level table may hold anything: a level that doesn't lie
// inside [0, rows) samples 0.
struct MsdaCudaArguments {
  const void* value;      // [batch, rows, heads, channels] of value_dtype
  const void* shapes;     // [levels, 2]: height, width
  const void* first_row;  // [levels]
  const void* locations;  // [batch, queries, heads, levels, points, 2]: x, y in [0, 1]
  const void* weights;    // [batch, queries, heads, levels, points]; logits with `softmax`
  void* output;           // [batch, queries, heads, channels] of value_dtype
  int64_t batch, rows, queries, heads, channels, levels, points;
  Dtype value_dtype, locations_dtype, weights_dtype;
  bool shapes_are_int64, first_row_is_int64;
  bool softmax;  // normalise the weights over levels * points first
};

// Enqueues the kernel on `stream` of device `device` and returns at once; the calling thread's
// current device must be `device`. Returns null, or what CUDA said of a launch that failed.
const char* msda_cuda(const MsdaCudaArguments& arguments, int device, CUstream_st* stream);

}  // namespace deform::kernels
