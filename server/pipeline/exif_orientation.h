#pragma once

#include <string_view>

#include "pipeline/picture.h"

namespace deform::pipeline {

// The orientation (1 … 8) in an EXIF block that starts with its TIFF header; a leading "Exif\0\0"
// is skipped. 1 for a block without one, with a value out of range, or damaged in any way: a
// picture is never refused for its metadata. Never reads outside of `exif`.
int ParseExifOrientation(std::string_view exif);

// The picture turned and mirrored so that it is upright. REQUIRES: 1 <= orientation <= 8.
Picture ApplyOrientation(Picture stored, int orientation);

}  // namespace deform::pipeline
