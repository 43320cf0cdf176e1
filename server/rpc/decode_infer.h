#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"
#include "rpc/violations.h"
#include "serving/predictor.h"

namespace deform::rpc {

// A message of the Open Inference Protocol into what the predictor takes; the raw tensors are moved
// out of it, not copied. Either every input brings its bytes in raw_input_contents, in order and of
// exactly the size of its shape and datatype, and none has typed `contents`; or all are typed, in
// the one field that fits the datatype (FP16 and BF16 have none). Which tensors the model takes is
// not looked at. INVALID_ARGUMENT names every wrong field.
absl::StatusOr<serving::InferRequest> DecodeInferRequest(inference::ModelInferRequest&& message,
                                                         const serving::CallContext& context);

// A model's version as the protocol writes it, into 0 for "" and the number for "1", "2", …; a
// violation for anything else.
int64_t DecodeVersion(const std::string& field, const std::string& version, Violations& violations);

// INVALID_ARGUMENT naming `outputs[i].name` for one that the model doesn't have or that comes
// twice.
absl::Status CheckRequestedOutputs(const inference::ModelInferRequest& message,
                                   const engine::PackageManifest& manifest);

}  // namespace deform::rpc
