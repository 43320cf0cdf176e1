#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "pipeline/picture.h"

namespace deform::pipeline {

// Tells the format by the first bytes. DAMAGED_IMAGE when there are none, UNSUPPORTED_FORMAT for
// anything else, by name where the name can be told (AVIF, HEIC, JPEG 2000, SVG, HTML, …).
absl::StatusOr<PictureHeader::Format> TellFormat(std::string_view encoded);

}  // namespace deform::pipeline
