#include "results/mask.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace deform::client {
namespace {

constexpr int kBitsPerCharacter = 5;
constexpr int kContinues = 0x20;  // more characters of this number follow
constexpr int kNegative = 0x10;   // in the last character: the number is below zero
constexpr int kFirstCharacter = '0';
constexpr int kCharacters = 64;

// Reads one signed number, five bits a character, the lowest first.
absl::StatusOr<int64_t> ReadNumber(std::string_view counts, size_t& position) {
  int64_t value = 0;
  for (int shift = 0; shift < 60; shift += kBitsPerCharacter) {
    if (position == counts.size()) {
      return absl::InvalidArgumentError("run lengths end within a number");
    }
    const int bits = static_cast<unsigned char>(counts[position]) - kFirstCharacter;
    if (bits < 0 || bits >= kCharacters) {
      return absl::InvalidArgumentError(
          absl::StrCat("run lengths hold a foreign character at ", position));
    }
    ++position;
    value |= static_cast<int64_t>(bits & 0x1f) << shift;
    if (bits & kContinues) continue;
    if (bits & kNegative) value -= int64_t{1} << (shift + kBitsPerCharacter);
    return value;
  }
  return absl::InvalidArgumentError("run lengths hold a number that is too long");
}

// Sets `count` pixels from `begin` on, counted down the columns.
void Fill(Mask& mask, int64_t begin, int64_t count) {
  while (count > 0) {
    const int64_t x = begin / mask.height;
    const int64_t top = begin % mask.height;
    const int64_t rows = std::min(count, mask.height - top);
    for (int64_t y = top; y < top + rows; ++y) mask.inside[y * mask.width + x] = 1;
    begin += rows;
    count -= rows;
  }
}

}  // namespace

absl::StatusOr<Mask> DecodeCocoRle(std::string_view counts, int width, int height) {
  if (width < 0 || height < 0) return absl::InvalidArgumentError("a mask's size is negative");
  const int64_t pixels = static_cast<int64_t>(width) * height;
  Mask mask{width, height, std::vector<uint8_t>(pixels, 0)};

  std::vector<int64_t> runs;
  int64_t covered = 0;
  size_t position = 0;
  while (position < counts.size()) {
    absl::StatusOr<int64_t> run = ReadNumber(counts, position);
    if (!run.ok()) return run.status();
    // From the fourth number on, COCO stores the difference from the run two before.
    if (runs.size() > 2) *run += runs[runs.size() - 2];
    if (*run < 0 || *run > pixels - covered) {
      return absl::InvalidArgumentError(
          absl::StrCat("run lengths don't fit in ", width, "×", height, " pixels"));
    }
    if (runs.size() % 2 == 1) Fill(mask, covered, *run);
    covered += *run;
    runs.push_back(*run);
  }
  if (covered != pixels) {
    return absl::InvalidArgumentError(
        absl::StrCat("run lengths cover ", covered, " pixels of ", width, "×", height));
  }
  return mask;
}

}  // namespace deform::client
