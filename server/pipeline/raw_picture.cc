#include <cstring>
#include <string>

#include "base/error.h"
#include "pipeline/picture.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

absl::Status CheckSide(std::string_view field, int64_t side) {
  if (side >= 1 && side <= INT32_MAX) return absl::OkStatus();
  return base::InvalidField(field, std::to_string(side) + "; at least 1 is needed");
}

}  // namespace

absl::StatusOr<Picture> CopyRawPicture(std::string_view rows, int64_t width, int64_t height,
                                       int64_t row_stride_bytes, const DecodeLimits& limits) {
  DEFORM_RETURN_IF_ERROR(CheckSide("picture.raw.width", width));
  DEFORM_RETURN_IF_ERROR(CheckSide("picture.raw.height", height));
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit("picture.raw", width, height, limits));
  const int64_t row_bytes = width * 3;
  const int64_t stride = row_stride_bytes == 0 ? row_bytes : row_stride_bytes;
  if (stride < row_bytes)
    return base::InvalidField("picture.raw.row_stride",
                              std::to_string(stride) + " bytes; a row of " + std::to_string(width) +
                                  " pixels has " + std::to_string(row_bytes));
  // The padding of the last row may be there or not.
  const auto size = static_cast<int64_t>(rows.size());
  const bool overflows = stride > (INT64_MAX - row_bytes) / height;
  if (overflows || (size != stride * height && size != stride * (height - 1) + row_bytes))
    return base::InvalidField("picture.raw.rgb8", std::to_string(size) + " bytes; " +
                                                      std::to_string(height) + " rows of " +
                                                      std::to_string(stride) + " bytes are needed");
  Picture picture;
  picture.width = static_cast<int>(width);
  picture.height = static_cast<int>(height);
  picture.rgb.resize(static_cast<size_t>(row_bytes * height));
  for (int64_t y = 0; y < height; ++y)
    std::memcpy(picture.rgb.data() + y * row_bytes, rows.data() + y * stride,
                static_cast<size_t>(row_bytes));
  return picture;
}

}  // namespace deform::pipeline
