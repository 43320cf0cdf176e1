#include <utility>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/exif_orientation.h"
#include "pipeline/picture.h"
#include "pipeline/picture_format.h"

namespace deform::pipeline {
namespace {

absl::StatusOr<StoredPicture> DecodeStored(PictureHeader::Format format, std::string_view encoded,
                                           const DecodeLimits& limits) {
  switch (format) {
    case PictureHeader::Format::kJpeg:
      return DecodeJpeg(encoded, limits);
    case PictureHeader::Format::kPng:
      return DecodePng(encoded, limits);
    case PictureHeader::Format::kWebp:
      return DecodeWebp(encoded, limits);
    case PictureHeader::Format::kGif:
      return DecodeGif(encoded, limits);
    case PictureHeader::Format::kTiff:
      return DecodeTiff(encoded, limits);
    case PictureHeader::Format::kBmp:
      return DecodeBmp(encoded, limits);
  }
  return absl::InternalError("unknown picture format");
}

}  // namespace

absl::StatusOr<PictureHeader> ReadPictureHeader(std::string_view encoded) {
  DEFORM_ASSIGN_OR_RETURN(const PictureHeader::Format format, TellFormat(encoded));
  switch (format) {
    case PictureHeader::Format::kJpeg:
      return ReadJpegHeader(encoded);
    case PictureHeader::Format::kPng:
      return ReadPngHeader(encoded);
    case PictureHeader::Format::kWebp:
      return ReadWebpHeader(encoded);
    case PictureHeader::Format::kGif:
      return ReadGifHeader(encoded);
    case PictureHeader::Format::kTiff:
      return ReadTiffHeader(encoded);
    case PictureHeader::Format::kBmp:
      return ReadBmpHeader(encoded);
  }
  return absl::InternalError("unknown picture format");
}

absl::StatusOr<Picture> DecodePicture(std::string_view encoded, const DecodeLimits& limits) {
  DEFORM_ASSIGN_OR_RETURN(const PictureHeader::Format format, TellFormat(encoded));
  DEFORM_ASSIGN_OR_RETURN(StoredPicture stored, DecodeStored(format, encoded, limits));
  return ApplyOrientation(std::move(stored.picture), stored.orientation);
}

}  // namespace deform::pipeline
