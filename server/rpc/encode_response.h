#pragma once

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "deform/segmentation/v1/segmentation.pb.h"
#include "google/protobuf/duration.pb.h"
#include "serving/predictor.h"

namespace deform::rpc {

// An answer into its message: segments with their masks as `encoding` says (unspecified: COCO_RLE;
// NONE: no masks, as in answers without them), the id map as PNG, the options in effect (those the
// task uses, so that they can be sent back as a request's), the time of each stage. Encoding is
// timed by `clock`; its time also goes into `metrics`. Takes long for many masks: not for a thread
// of gRPC's.
//
// INVALID_ARGUMENT as CheckMaskEncoding's, for a request that named no task; INTERNAL when a PNG
// can't be made.
absl::Status EncodeSegmentResponse(const serving::SegmentAnswer& answer,
                                   segmentation::v1::MaskEncoding encoding, base::Clock* clock,
                                   base::Metrics* metrics,
                                   segmentation::v1::SegmentResponse& response);

segmentation::v1::Task EncodeTask(engine::Task task);

// Nanoseconds as seconds and nanos.
void EncodeDuration(base::Duration duration, google::protobuf::Duration* out);

}  // namespace deform::rpc
