// Checks of the operands of multi-scale deformable attention. What they are: msda.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "msda/msda_cpu.h"

namespace deform::ops {

// Throws unless ranks, sizes, types and devices fit together, naming the operand, what it is and
// what it should be. Sizes may be symbolic; contents aren't read.
void check_msda_operands(const char* op, const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights);

// The same, and that grad_output is like the result.
void check_msda_operands(const char* op, const at::Tensor& grad_output, const at::Tensor& value,
                         const at::Tensor& spatial_shapes, const at::Tensor& level_start_index,
                         const at::Tensor& sampling_locations, const at::Tensor& attention_weights);

// Throws if a size is beyond what the kernels' index arithmetic holds.
void check_msda_limits(const char* op, const at::Tensor& value,
                       const at::Tensor& sampling_locations);

// Reads the level table. Throws unless sizes are positive, each level starts where the one before
// ends, the first at 0, and all rows of value belong to one. REQUIRES: both on the CPU, `rows` as
// check_msda_limits lets through.
std::vector<kernels::MsdaLevel> read_level_table(const char* op, const at::Tensor& spatial_shapes,
                                                 const at::Tensor& level_start_index, int64_t rows);

}  // namespace deform::ops
