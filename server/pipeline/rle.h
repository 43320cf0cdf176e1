#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace deform::pipeline {

// COCO run lengths of a binary mask, column-major, starting with the zeros: bit for bit what
// pycocotools encodes.
struct Rle {
  int height = 0;
  int width = 0;
  std::vector<uint32_t> counts;
};

// mask: [height, width] row-major, non-zero is inside.
Rle EncodeRle(const uint8_t* mask, int height, int width);

// The masks `map == value` for each of `values`, in one pass over the map.
// map: [height, width] row-major. REQUIRES: values are distinct.
std::vector<Rle> EncodeRleOfValues(const int32_t* map, int height, int width,
                                   absl::Span<const int32_t> values);

// [height, width] row-major, 1 inside and 0 outside. REQUIRES: counts add up to height · width.
std::vector<uint8_t> DecodeRle(const Rle& rle);

// Pixels inside.
int64_t RleArea(const Rle& rle);

// The smallest rectangle of whole pixels that holds the mask; all 0 for an empty mask.
struct PixelRect {
  int x = 0, y = 0, width = 0, height = 0;
};
PixelRect RleBounds(const Rle& rle);

// The compressed `counts` string of COCO (6 bits a character, differences from the count before
// last).
std::string CompressCounts(const std::vector<uint32_t>& counts);

}  // namespace deform::pipeline
