#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor.h"

namespace deform::serving {

// Tensors that came by name, in the order in which the network takes them. INVALID_ARGUMENT names
// the field: `inputs[i].name` for one that is unknown or comes twice, `inputs` for one that lacks.
// Their types and sizes are not looked at.
absl::StatusOr<std::vector<engine::Tensor>> OrderInputs(
    const std::vector<engine::TensorSpec>& specs,
    std::vector<std::pair<std::string, engine::Tensor>> inputs);

}  // namespace deform::serving
