#pragma once

#include "absl/status/statusor.h"
#include "deform/segmentation/v1/segmentation.pb.h"
#include "serving/predictor.h"

namespace deform::rpc {

struct DecodedSegmentRequest {
  serving::SegmentRequest request;
  segmentation::v1::MaskEncoding mask_encoding = segmentation::v1::MASK_ENCODING_UNSPECIFIED;
};

// Protobuf ends here: a message into what the predictor takes, the picture moved out of it. Checks
// what can be told without the model: names, versions, enum values this server doesn't know, a
// missing picture. INVALID_ARGUMENT names every wrong field.
absl::StatusOr<DecodedSegmentRequest> DecodeSegmentRequest(
    segmentation::v1::SegmentRequest&& message, const serving::CallContext& context);

// INVALID_ARGUMENT on `options.mask_encoding` when answers of `task` have no masks to encode.
absl::Status CheckMaskEncoding(engine::Task task, segmentation::v1::MaskEncoding encoding);

// Checks of a model's name and version number, shared with GetModel. `field`s as in its message.
class Violations;
void CheckModelName(const std::string& field, const std::string& name, Violations& violations);
void CheckVersion(const std::string& field, int64_t version, Violations& violations);

}  // namespace deform::rpc
