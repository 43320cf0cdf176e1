// Multi-scale deformable attention on CUDA: raw device pointers, no torch.
#pragma once

#include <stdint.h>

#include "common/dtype.h"

namespace deform::kernels {

struct CudaLaunch;

// All arrays are contiguous device memory and none that is written overlaps another. REQUIRES:
// every size >= 1, rows < 2^31, heads * channels < 2^31, levels * points < 2^30. The level table
// may hold anything: a level that doesn't lie inside [0, rows) samples 0.
struct MsdaCudaArguments {
  const void* value;      // [batch, rows, heads, channels] of value_dtype
  const void* shapes;     // [levels, 2]: height, width
  const void* first_row;  // [levels]
  const void* locations;  // [batch, queries, heads, levels, points, 2]: x, y in [0, 1]
  const void* weights;    // [batch, queries, heads, levels, points]; logits with `softmax`
  int64_t batch, rows, queries, heads, channels, levels, points;
  Dtype value_dtype, locations_dtype, weights_dtype;
  bool shapes_are_int64, first_row_is_int64;
  bool softmax;  // normalise the weights over levels * points first
};

struct MsdaCudaGradients {
  const void* output;  // the result's gradient, [batch, queries, heads, channels] of value_dtype
  // Like value, and holds zeros, to which gradients are added: of value_dtype with `native`, else
  // of float, or of double for double.
  void* value;
  void* locations;  // like locations
  void* weights;    // like weights
  // Atomic additions in value's own type; where that is a half one, SM 9.0 or later only.
  bool native;
};

// Each enqueues its kernel where `where` says (common/cuda_launch.h) and returns at once. Returns
// null, or what CUDA said of a launch that failed. `output` is [batch, queries, heads, channels] of
// value_dtype.
const char* msda_cuda(const MsdaCudaArguments& arguments, void* output, const CudaLaunch& where);
const char* msda_backward_cuda(const MsdaCudaArguments& arguments,
                               const MsdaCudaGradients& gradients, const CudaLaunch& where);

}  // namespace deform::kernels
