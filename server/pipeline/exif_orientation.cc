#include "pipeline/exif_orientation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace deform::pipeline {
namespace {

using std::string_view_literals::operator""sv;

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShort = 3;

// Integers of a TIFF block in its own byte order; nothing past the end.
class TiffReader {
 public:
  TiffReader(std::string_view bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<uint32_t> U16(size_t offset) const { return Read(offset, 2); }
  std::optional<uint32_t> U32(size_t offset) const { return Read(offset, 4); }

 private:
  std::optional<uint32_t> Read(size_t offset, size_t size) const {
    if (offset > bytes_.size() || bytes_.size() - offset < size) return std::nullopt;
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t at = big_endian_ ? i : size - 1 - i;
      value = value << 8 | static_cast<uint8_t>(bytes_[offset + at]);
    }
    return value;
  }

  std::string_view bytes_;
  bool big_endian_;
};

}  // namespace

int ParseExifOrientation(std::string_view exif) {
  constexpr std::string_view kPrefix = "Exif\0\0"sv;
  if (exif.substr(0, kPrefix.size()) == kPrefix) exif.remove_prefix(kPrefix.size());
  const std::string_view magic = exif.substr(0, 4);
  if (magic != "II*\0"sv && magic != "MM\0*"sv) return 1;

  const TiffReader reader(exif, magic[0] == 'M');
  const auto directory = reader.U32(4);
  if (!directory) return 1;
  const auto entries = reader.U16(*directory);
  if (!entries) return 1;
  for (size_t entry = 0; entry < *entries; ++entry) {
    const size_t at = size_t{*directory} + 2 + entry * 12;
    const auto tag = reader.U16(at);
    if (!tag) return 1;
    if (*tag != kOrientationTag) continue;
    const auto type = reader.U16(at + 2);
    const auto count = reader.U32(at + 4);
    const auto value = reader.U16(at + 8);
    if (!type || !count || !value || *type != kShort || *count != 1) return 1;
    return *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
  }
  return 1;
}

Picture ApplyOrientation(Picture stored, int orientation) {
  if (orientation == 1) return stored;
  // Upright pixel (x, y) is stored pixel (first + x·step_x + y·step_y).
  const bool transposed = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const ptrdiff_t row = stored.width;
  const ptrdiff_t along_x = from_right ? -1 : 1;
  const ptrdiff_t along_y = from_bottom ? -row : row;
  const ptrdiff_t first =
      (from_right ? row - 1 : 0) + (from_bottom ? row * (stored.height - 1) : 0);
  const ptrdiff_t step_x = transposed ? along_y : along_x;
  const ptrdiff_t step_y = transposed ? along_x : along_y;

  Picture upright;
  upright.width = transposed ? stored.height : stored.width;
  upright.height = transposed ? stored.width : stored.height;
  upright.rgb.resize(stored.rgb.size());
  // In tiles, so that a transposition touches few cache lines at a time.
  constexpr int kTile = 32;
  for (int top = 0; top < upright.height; top += kTile) {
    const int bottom = std::min(top + kTile, upright.height);
    for (int left = 0; left < upright.width; left += kTile) {
      const int right = std::min(left + kTile, upright.width);
      for (int y = top; y < bottom; ++y) {
        uint8_t* to = &upright.rgb[(static_cast<size_t>(y) * upright.width + left) * 3];
        for (int x = left; x < right; ++x, to += 3) {
          const uint8_t* from = stored.rgb.data() + (first + x * step_x + y * step_y) * 3;
          to[0] = from[0];
          to[1] = from[1];
          to[2] = from[2];
        }
      }
    }
  }
  return upright;
}

}  // namespace deform::pipeline
