#include "pipeline/collate.h"

#include <cstring>

namespace deform::pipeline {

std::vector<engine::Tensor> Collate(absl::Span<const std::vector<engine::Tensor>* const> entries) {
  if (entries.size() == 1) return *entries.front();
  std::vector<engine::Tensor> batch;
  for (size_t input = 0; input < entries.front()->size(); ++input) {
    const engine::Tensor& first = (*entries.front())[input];
    std::vector<int64_t> shape = first.shape();
    shape[0] = 0;
    for (const auto* entry : entries) shape[0] += (*entry)[input].shape()[0];
    engine::Tensor joined = engine::Tensor::Allocate(first.dtype(), shape);
    auto* to = static_cast<char*>(joined.mutable_data());
    for (const auto* entry : entries) {
      const engine::Tensor& rows = (*entry)[input];
      std::memcpy(to, rows.data(), rows.bytes());
      to += rows.bytes();
    }
    batch.push_back(joined);
  }
  return batch;
}

std::vector<engine::Tensor> SliceRows(absl::Span<const engine::Tensor> tensors, int64_t begin,
                                      int64_t rows) {
  std::vector<engine::Tensor> slices;
  slices.reserve(tensors.size());
  for (const engine::Tensor& tensor : tensors) slices.push_back(tensor.Rows(begin, rows));
  return slices;
}

}  // namespace deform::pipeline
