#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

// The compressed `counts` string of COCO (6 bits a character, differences from the count before
// last).
std::string CompressCounts(const std::vector<uint32_t>& counts);

}  // namespace deform::pipeline
