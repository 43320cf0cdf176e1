#pragma once

#include <vector>

#include "absl/types/span.h"
#include "engine/tensor.h"

namespace deform::pipeline {

// Joins the tensors of several entries along the first dimension: entry e brings [n_e, …] for each
// of the network's inputs, the result is [Σ n_e, …] for each. One entry alone is not copied.
// REQUIRES: at least one entry; all of the same count, dtypes and sizes but for the first.
std::vector<engine::Tensor> Collate(absl::Span<const std::vector<engine::Tensor>* const> entries);

// Rows [begin, begin + rows) of each tensor, sharing memory: the way back.
std::vector<engine::Tensor> SliceRows(absl::Span<const engine::Tensor> tensors, int64_t begin,
                                      int64_t rows);

}  // namespace deform::pipeline
