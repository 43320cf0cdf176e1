#pragma once

#include "absl/status/statusor.h"
#include "deform/segmentation/v1/segmentation.pb.h"
#include "drawing/canvas.h"
#include "drawing/colors.h"

namespace deform::client {

// The picture with every segment of the answer drawn on it, the larger under the smaller, things of
// one class in different shades of its colour. Masks come from the segments or, where they hold
// none, from the id map; without either the boxes are drawn. INVALID_ARGUMENT when a mask can't be
// decoded or sizes don't agree.
absl::StatusOr<Canvas> DrawResponse(const Canvas& picture,
                                    const segmentation::v1::SegmentResponse& response,
                                    const LabelColors& colors);

}  // namespace deform::client
