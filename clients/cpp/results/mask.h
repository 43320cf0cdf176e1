#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deform::client {

// A binary mask: [height, width] row-major, 1 inside and 0 outside.
struct Mask {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> inside;

  bool Contains(int x, int y) const { return inside[static_cast<size_t>(y) * width + x] != 0; }
};

// Decodes COCO's compressed run lengths (column-major, as pycocotools writes them).
// INVALID_ARGUMENT when `counts` holds a foreign character, ends within a number, holds a negative
// run, or doesn't cover width × height pixels exactly.
absl::StatusOr<Mask> DecodeCocoRle(std::string_view counts, int width, int height);

}  // namespace deform::client
