#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

// Read here rather than by a library: uncompressed BMP is a header and rows.

constexpr auto kBmp = PictureHeader::Format::kBmp;
constexpr size_t kFileHeaderBytes = 14;

// REQUIRES: the bytes are there.
uint32_t U16(std::string_view bytes, size_t at) {
  return static_cast<uint8_t>(bytes[at]) | static_cast<uint8_t>(bytes[at + 1]) << 8;
}
uint32_t U32(std::string_view bytes, size_t at) {
  return U16(bytes, at) | U16(bytes, at + 2) << 16;
}

struct Layout {
  int width = 0, height = 0;
  bool top_down = false;
  int bits = 0;                               // a pixel: 1, 4, 8 (palette), 24, 32
  std::array<int, 3> channel_bytes{2, 1, 0};  // where R, G, B lie in a pixel of 24 or 32 bits
  size_t pixels_at = 0;
  size_t palette_at = 0;
  size_t palette_entry_bytes = 4;
  size_t palette_entries = 0;
};

std::string CompressionName(uint32_t compression, int bits) {
  switch (compression) {
    case 1:
    case 2:
      return "RLE-compressed BMP";
    case 4:
      return "BMP that holds a JPEG";
    case 5:
      return "BMP that holds a PNG";
    case 0:
    case 3:
    case 6:
      return "BMP of " + std::to_string(bits) + " bits a pixel with these channel masks";
    default:
      return "BMP with compression " + std::to_string(compression);
  }
}

// The byte that an 8-bit channel mask selects, or -1.
int MaskedByte(uint32_t mask) {
  for (int byte = 0; byte < 4; ++byte) {
    if (mask == 0xFFu << (8 * byte)) return byte;
  }
  return -1;
}

absl::StatusOr<Layout> ReadLayout(std::string_view encoded) {
  if (encoded.size() < kFileHeaderBytes + 4) return DamagedPicture(kBmp, "premature end");
  const size_t header_bytes = U32(encoded, kFileHeaderBytes);
  if (header_bytes < 12 || header_bytes > encoded.size() - kFileHeaderBytes)
    return DamagedPicture(kBmp, "the header is broken or cut short");
  Layout layout;
  layout.pixels_at = U32(encoded, 10);
  size_t palette_at = kFileHeaderBytes + header_bytes;
  uint32_t planes = 0, compression = 0, colours_used = 0;
  int64_t width = 0, height = 0;
  if (header_bytes == 12) {  // OS/2
    width = U16(encoded, 18);
    height = U16(encoded, 20);
    planes = U16(encoded, 22);
    layout.bits = static_cast<int>(U16(encoded, 24));
    layout.palette_entry_bytes = 3;
  } else if (header_bytes >= 40) {
    width = static_cast<int32_t>(U32(encoded, 18));
    height = static_cast<int32_t>(U32(encoded, 22));
    planes = U16(encoded, 26);
    layout.bits = static_cast<int>(U16(encoded, 28));
    compression = U32(encoded, 30);
    colours_used = U32(encoded, 46);
  } else {
    return UnsupportedPicture("BMP with a header of " + std::to_string(header_bytes) + " bytes");
  }
  layout.top_down = height < 0;
  height = std::abs(height);
  if (width <= 0 || height <= 0 || height > INT32_MAX || planes != 1)
    return DamagedPicture(kBmp, "the header has an impossible size");
  layout.width = static_cast<int>(width);
  layout.height = static_cast<int>(height);

  const bool masks = layout.bits == 32 && (compression == 3 || compression == 6);
  if (masks) {
    // In the header from version 2 on, right after a version 1 header.
    if (encoded.size() < 66) return DamagedPicture(kBmp, "premature end");
    for (int channel = 0; channel < 3; ++channel) {
      layout.channel_bytes[channel] = MaskedByte(U32(encoded, 54 + 4 * channel));
      if (layout.channel_bytes[channel] < 0)
        return UnsupportedPicture(CompressionName(compression, layout.bits));
    }
  } else if (compression != 0) {
    return UnsupportedPicture(CompressionName(compression, layout.bits));
  }
  switch (layout.bits) {
    case 1:
    case 4:
    case 8: {
      const size_t most = size_t{1} << layout.bits;
      layout.palette_at = palette_at;
      layout.palette_entries = colours_used == 0 ? most : std::min<size_t>(colours_used, most);
      if (palette_at + layout.palette_entries * layout.palette_entry_bytes > encoded.size())
        return DamagedPicture(kBmp, "the palette is cut short");
      return layout;
    }
    case 24:
    case 32:
      return layout;
    default:
      return UnsupportedPicture("BMP of " + std::to_string(layout.bits) + " bits a pixel");
  }
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

Palette ReadPalette(std::string_view encoded, const Layout& layout) {
  Palette palette{};
  for (size_t i = 0; i < layout.palette_entries; ++i) {
    const size_t at = layout.palette_at + i * layout.palette_entry_bytes;
    for (size_t c = 0; c < 3; ++c) palette[i][c] = static_cast<uint8_t>(encoded[at + 2 - c]);
  }
  return palette;
}

void ReadPaletteRow(const uint8_t* row, const Layout& layout, const Palette& palette,
                    uint8_t* rgb) {
  const int pixels_a_byte = 8 / layout.bits;
  const int mask = (1 << layout.bits) - 1;
  for (int x = 0; x < layout.width; ++x) {
    const int shift = 8 - layout.bits * (x % pixels_a_byte + 1);
    const auto& colour = palette[row[x / pixels_a_byte] >> shift & mask];
    for (const uint8_t value : colour) *rgb++ = value;
  }
}

void ReadChannelRow(const uint8_t* row, const Layout& layout, uint8_t* rgb) {
  const int pixel_bytes = layout.bits / 8;
  for (int x = 0; x < layout.width; ++x, row += pixel_bytes) {
    for (const int byte : layout.channel_bytes) *rgb++ = row[byte];
  }
}

}  // namespace

absl::StatusOr<PictureHeader> ReadBmpHeader(std::string_view encoded) {
  DEFORM_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(encoded));
  return PictureHeader{.format = kBmp, .width = layout.width, .height = layout.height};
}

absl::StatusOr<StoredPicture> DecodeBmp(std::string_view encoded, const DecodeLimits& limits) {
  DEFORM_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(encoded));
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, layout.width, layout.height, limits));
  // Rows are padded to four bytes; some writers leave the padding of the last one out.
  const size_t used_bytes = (size_t{1} * layout.width * layout.bits + 7) / 8;
  const size_t stride = (used_bytes + 3) / 4 * 4;
  const size_t pixel_bytes = stride * (layout.height - 1) + used_bytes;
  if (layout.pixels_at > encoded.size() || encoded.size() - layout.pixels_at < pixel_bytes)
    return DamagedPicture(kBmp, "the pixels are cut short");

  StoredPicture stored;
  Picture& picture = stored.picture;
  picture.width = layout.width;
  picture.height = layout.height;
  picture.rgb.resize(size_t{3} * layout.width * layout.height);
  const Palette palette = ReadPalette(encoded, layout);
  const auto* pixels = reinterpret_cast<const uint8_t*>(encoded.data()) + layout.pixels_at;
  for (int y = 0; y < layout.height; ++y) {
    const uint8_t* row = pixels + stride * (layout.top_down ? y : layout.height - 1 - y);
    uint8_t* rgb = &picture.rgb[size_t{3} * y * layout.width];
    if (layout.bits <= 8) {
      ReadPaletteRow(row, layout, palette, rgb);
    } else {
      ReadChannelRow(row, layout, rgb);
    }
  }
  return stored;
}

}  // namespace deform::pipeline
