#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/tensor.h"

namespace deform::engine {

// A loaded network on one device. Thread-compatible: one Run at a time, from any thread.
class Model {
 public:
  virtual ~Model() = default;

  // "cpu", "cuda:0".
  virtual const std::string& device() const = 0;
  virtual const std::vector<TensorSpec>& inputs() const = 0;
  virtual const std::vector<TensorSpec>& outputs() const = 0;
  virtual int max_batch() const = 0;

  // Runs one batch. Inputs are checked against inputs() (count, dtype, rank, sizes, the same batch
  // of 1 … max_batch() for all) before the network sees them: compiled networks read out of bounds
  // without a word. Outputs are in host memory, ordered and shaped as outputs().
  // INVALID_ARGUMENT names the input; INTERNAL when the network itself fails.
  virtual absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> inputs) = 0;
};

// The check of Run, shared by everything that takes tensors from outside.
absl::Status CheckInputs(const std::vector<TensorSpec>& specs, int max_batch,
                         absl::Span<const Tensor> inputs);

}  // namespace deform::engine
