#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/tensor.h"
#include "inference/grpc_service.pb.h"
#include "rpc/violations.h"

namespace deform::rpc {

// A tensor from the typed fields of the Open Inference Protocol. The one field that fits the
// datatype holds as many elements as the shape has, and the others hold none; FP16 and BF16 have no
// field. nullopt and a violation of `field` otherwise. REQUIRES: the sizes of `shape` are not
// negative and their product can be counted in bytes.
std::optional<engine::Tensor> DecodeTypedContents(const std::string& field, engine::DType dtype,
                                                  std::vector<int64_t> shape,
                                                  const inference::InferTensorContents& contents,
                                                  Violations& violations);

}  // namespace deform::rpc
