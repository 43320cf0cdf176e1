#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deform::client {

// Samples as stored, no gamma applied: [height, width] row-major, 8-bit ones as 0 to 255.
struct GreyPicture {
  int width = 0;
  int height = 0;
  std::vector<uint16_t> samples;
};

// Reads a grey PNG of 8 or 16 bits whose size is known beforehand: an id map or a mask.
// INVALID_ARGUMENT when it is damaged, of another kind, or not width × height (told from the
// header, before memory is taken).
absl::StatusOr<GreyPicture> ReadGreyPng(std::string_view png, int width, int height);

// Encodes [height, width, 3] samples of 8 bits, at a compression that favours speed.
absl::StatusOr<std::string> WriteRgbPng(const std::vector<uint8_t>& rgb, int width, int height);

}  // namespace deform::client
