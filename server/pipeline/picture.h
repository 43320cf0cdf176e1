#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deform::pipeline {

// An upright RGB picture: 8 bits a channel, rows top to bottom, no padding; [height, width, 3].
struct Picture {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;
};

struct DecodeLimits {
  int64_t max_pixels = 50'000'000;  // width × height
  // Of a progressive JPEG; fewer for large ones: scans × pixels is at most 2·10⁹, but 32 always.
  int max_jpeg_scans = 500;
};

// What the header says, before a pixel is decoded.
struct PictureHeader {
  enum class Format { kJpeg, kPng, kWebp, kGif, kTiff, kBmp };
  Format format;
  int width = 0;  // as stored, before the EXIF orientation
  int height = 0;
};

// Tells the format by content, never by a name, and reads the size. Errors as DecodePicture's.
absl::StatusOr<PictureHeader> ReadPictureHeader(std::string_view encoded);

// Decodes JPEG, PNG, WebP, GIF, TIFF or BMP: EXIF orientation applied, alpha dropped, ICC profiles
// ignored, the first frame of many, 16-bit samples by v >> 8, CMYK as (255-C)(255-K)/255. Pixels
// that are missing or made up for are damage, and so is a JPEG or PNG without its end marker.
// INVALID_ARGUMENT on field `picture.encoded`, reason UNSUPPORTED_FORMAT (names the format where it
// can be told) or DAMAGED_IMAGE; RESOURCE_EXHAUSTED, reason IMAGE_TOO_LARGE, from the header alone,
// when the limits don't allow it. Thread-safe.
absl::StatusOr<Picture> DecodePicture(std::string_view encoded, const DecodeLimits& limits);

// Raw RGB8 rows into a Picture; `row_stride_bytes` 0 means width·3. The last row may lack its
// padding. INVALID_ARGUMENT on `picture.raw.width`, `.height`, `.row_stride` or `.rgb8` when sizes
// don't fit; IMAGE_TOO_LARGE on `picture.raw`.
absl::StatusOr<Picture> CopyRawPicture(std::string_view rows, int64_t width, int64_t height,
                                       int64_t row_stride_bytes, const DecodeLimits& limits);

}  // namespace deform::pipeline
