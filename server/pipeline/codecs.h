#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "pipeline/picture.h"

namespace deform::pipeline {

// One pair for each format, in a file of its own. All are thread-safe, check `limits` from the
// header before anything of the picture's size is allocated, and give the errors of DecodePicture.

// A picture as its file stores it, with the EXIF orientation (1 … 8) that makes it upright.
struct StoredPicture {
  Picture picture;
  int orientation = 1;
};

absl::StatusOr<PictureHeader> ReadJpegHeader(std::string_view encoded);
absl::StatusOr<StoredPicture> DecodeJpeg(std::string_view encoded, const DecodeLimits& limits);

absl::StatusOr<PictureHeader> ReadPngHeader(std::string_view encoded);
absl::StatusOr<StoredPicture> DecodePng(std::string_view encoded, const DecodeLimits& limits);

absl::StatusOr<PictureHeader> ReadWebpHeader(std::string_view encoded);
absl::StatusOr<StoredPicture> DecodeWebp(std::string_view encoded, const DecodeLimits& limits);

absl::StatusOr<PictureHeader> ReadGifHeader(std::string_view encoded);
absl::StatusOr<StoredPicture> DecodeGif(std::string_view encoded, const DecodeLimits& limits);

absl::StatusOr<PictureHeader> ReadTiffHeader(std::string_view encoded);
absl::StatusOr<StoredPicture> DecodeTiff(std::string_view encoded, const DecodeLimits& limits);

absl::StatusOr<PictureHeader> ReadBmpHeader(std::string_view encoded);
absl::StatusOr<StoredPicture> DecodeBmp(std::string_view encoded, const DecodeLimits& limits);

}  // namespace deform::pipeline
