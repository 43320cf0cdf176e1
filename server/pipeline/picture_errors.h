#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "pipeline/picture.h"

namespace deform::pipeline {

// The three ways in which a picture is refused. All name the field; `what` is one clause without a
// full stop.

// "JPEG", "PNG", …
std::string_view FormatName(PictureHeader::Format format);

// INVALID_ARGUMENT, reason DAMAGED_IMAGE: "damaged JPEG: premature end".
absl::Status DamagedPicture(PictureHeader::Format format, std::string_view what);

// INVALID_ARGUMENT, reason UNSUPPORTED_FORMAT. `what` is the noun: "AVIF", "RLE-compressed BMP".
absl::Status UnsupportedPicture(std::string_view what);

// RESOURCE_EXHAUSTED, reason IMAGE_TOO_LARGE.
absl::Status PictureTooLarge(std::string_view field, std::string_view description);

// OK when width × height is within limits.max_pixels. REQUIRES: both positive.
absl::Status CheckPixelLimit(std::string_view field, int64_t width, int64_t height,
                             const DecodeLimits& limits);

inline constexpr std::string_view kEncodedField = "picture.encoded";

}  // namespace deform::pipeline
