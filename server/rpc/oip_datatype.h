#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/tensor.h"

namespace deform::rpc {

// "FP32", … as the Open Inference Protocol names element types.
std::string OipDatatype(engine::DType dtype);

// The type of that name; nullopt for names it doesn't have and for types that no package takes
// (BYTES, UINT64, …).
std::optional<engine::DType> ParseOipDatatype(std::string_view name);

}  // namespace deform::rpc
