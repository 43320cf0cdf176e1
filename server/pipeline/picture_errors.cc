#include "pipeline/picture_errors.h"

#include <string>

#include "base/error.h"

namespace deform::pipeline {

std::string_view FormatName(PictureHeader::Format format) {
  switch (format) {
    case PictureHeader::Format::kJpeg:
      return "JPEG";
    case PictureHeader::Format::kPng:
      return "PNG";
    case PictureHeader::Format::kWebp:
      return "WebP";
    case PictureHeader::Format::kGif:
      return "GIF";
    case PictureHeader::Format::kTiff:
      return "TIFF";
    case PictureHeader::Format::kBmp:
      return "BMP";
  }
  return "picture";
}

absl::Status DamagedPicture(PictureHeader::Format format, std::string_view what) {
  return base::InvalidField(kEncodedField,
                            "damaged " + std::string(FormatName(format)) + ": " + std::string(what),
                            "DAMAGED_IMAGE");
}

absl::Status UnsupportedPicture(std::string_view what) {
  return base::InvalidField(
      kEncodedField,
      std::string(what) + " is not supported; JPEG, PNG, WebP, GIF, TIFF and BMP are",
      "UNSUPPORTED_FORMAT");
}

absl::Status PictureTooLarge(std::string_view field, std::string_view description) {
  std::string message = "`";
  message.append(field).append("`: ").append(description);
  return base::MakeError(absl::StatusCode::kResourceExhausted, message,
                         {.reason = "IMAGE_TOO_LARGE",
                          .field_violations = {{std::string(field), std::string(description)}},
                          .retry_after = std::nullopt});
}

absl::Status CheckPixelLimit(std::string_view field, int64_t width, int64_t height,
                             const DecodeLimits& limits) {
  // Divided, not multiplied: both sides may be near 2^63 for raw pictures.
  if (height <= limits.max_pixels / width) return absl::OkStatus();
  return PictureTooLarge(field, std::to_string(width) + " x " + std::to_string(height) +
                                    " pixels; at most " + std::to_string(limits.max_pixels) +
                                    " pixels are allowed");
}

}  // namespace deform::pipeline
