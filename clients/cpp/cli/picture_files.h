#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "deform/segmentation/v1/segmentation.pb.h"
#include "drawing/colors.h"
#include "results/coco_results.h"

namespace deform::client {

// Writes what belongs to one picture into `folder`: NAME.overlay.png, NAME.ids.png where the answer
// has an id map, NAME.mask-ID.png where its masks are PNGs. `encoded` is the picture as it was
// sent. Thread-safe for different names.
absl::StatusOr<ResultFiles> WritePictureFiles(const std::filesystem::path& folder,
                                              const std::string& name, std::string_view encoded,
                                              const segmentation::v1::SegmentResponse& response,
                                              const LabelColors& colors);

}  // namespace deform::client
