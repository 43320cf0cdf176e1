#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

constexpr auto kTiff = PictureHeader::Format::kTiff;
constexpr tmsize_t kMaxAllocationBytes = tmsize_t{512} << 20;

// Only reads: libtiff sees the bytes as a mapped file.
struct MemoryFile {
  std::string_view bytes;
  uint64_t position = 0;
};

MemoryFile* File(thandle_t handle) { return static_cast<MemoryFile*>(handle); }

tmsize_t ReadBytes(thandle_t handle, void* to, tmsize_t size) {
  MemoryFile* file = File(handle);
  if (size <= 0 || file->position >= file->bytes.size()) return 0;
  const size_t read = std::min(static_cast<size_t>(size), file->bytes.size() - file->position);
  std::memcpy(to, file->bytes.data() + file->position, read);
  file->position += read;
  return static_cast<tmsize_t>(read);
}
tmsize_t WriteNothing(thandle_t, void*, tmsize_t) { return 0; }
uint64_t Seek(thandle_t handle, uint64_t offset, int whence) {
  MemoryFile* file = File(handle);
  const uint64_t base = whence == SEEK_CUR   ? file->position
                        : whence == SEEK_END ? file->bytes.size()
                                             : 0;
  return file->position = base + offset;
}
int Close(thandle_t) { return 0; }
uint64_t Size(thandle_t handle) { return File(handle)->bytes.size(); }
int Map(thandle_t handle, void** base, uint64_t* size) {
  *base = const_cast<char*>(File(handle)->bytes.data());
  *size = File(handle)->bytes.size();
  return 1;
}
void Unmap(thandle_t, void*, uint64_t) {}
int Silent(TIFF*, void*, const char*, const char*, va_list) { return 1; }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
using TiffFile = std::unique_ptr<TIFF, CloseTiff>;

// `file` outlives the result.
absl::StatusOr<TiffFile> Open(MemoryFile* file) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             &TIFFOpenOptionsFree);
  if (options == nullptr) return absl::ResourceExhaustedError("no memory to decode the picture");
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxAllocationBytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &Silent, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &Silent, nullptr);
  TiffFile tiff(TIFFClientOpenExt("picture", "r", file, &ReadBytes, &WriteNothing, &Seek, &Close,
                                  &Size, &Map, &Unmap, options.get()));
  if (tiff == nullptr) return DamagedPicture(kTiff, "the first directory is broken or cut short");
  return tiff;
}

struct Layout {
  uint32_t width = 0, height = 0;
  uint16_t bits = 1, samples = 1, sample_format = SAMPLEFORMAT_UINT;
  uint16_t photometric = PHOTOMETRIC_MINISBLACK, planar = PLANARCONFIG_CONTIG;
  uint16_t compression = COMPRESSION_NONE, orientation = 1;

  bool separate() const { return planar == PLANARCONFIG_SEPARATE && samples > 1; }
  int samples_a_pixel() const { return separate() ? 1 : samples; }
  size_t RowBytes(size_t pixels) const { return (pixels * samples_a_pixel() * bits + 7) / 8; }
};

absl::StatusOr<Layout> ReadLayout(TIFF* tiff) {
  Layout layout;
  if (TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &layout.width) == 0 ||
      TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &layout.height) == 0 || layout.width == 0 ||
      layout.height == 0 || layout.width > INT32_MAX || layout.height > INT32_MAX)
    return DamagedPicture(kTiff, "no size");
  TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &layout.bits);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &layout.samples);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &layout.sample_format);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &layout.planar);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &layout.compression);
  TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &layout.orientation);
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &layout.photometric);
  return layout;
}

absl::Status CheckSupported(const Layout& layout) {
  switch (layout.compression) {
    case COMPRESSION_NONE:
    case COMPRESSION_CCITTRLE:
    case COMPRESSION_CCITTFAX3:
    case COMPRESSION_CCITTFAX4:
    case COMPRESSION_LZW:
    case COMPRESSION_JPEG:
    case COMPRESSION_ADOBE_DEFLATE:
    case COMPRESSION_DEFLATE:
    case COMPRESSION_PACKBITS:
      break;
    default:
      return UnsupportedPicture("TIFF with compression " + std::to_string(layout.compression));
  }
  if (layout.sample_format != SAMPLEFORMAT_UINT && layout.sample_format != SAMPLEFORMAT_VOID)
    return UnsupportedPicture("TIFF with samples that are not unsigned integers");
  const auto unsupported = [&] {
    return UnsupportedPicture("TIFF of " + std::to_string(layout.samples) + " samples of " +
                              std::to_string(layout.bits) + " bits with photometric " +
                              std::to_string(layout.photometric));
  };
  const bool whole_bytes = layout.bits == 8 || layout.bits == 16;
  const bool part_of_byte = layout.bits == 1 || layout.bits == 2 || layout.bits == 4;
  switch (layout.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      if (layout.samples <= 8 && (whole_bytes || (part_of_byte && layout.samples == 1)))
        return absl::OkStatus();
      return unsupported();
    case PHOTOMETRIC_PALETTE:
      if (layout.bits == 8 || part_of_byte) {
        if (layout.samples == 1) return absl::OkStatus();
      }
      return unsupported();
    case PHOTOMETRIC_RGB:
      return layout.samples >= 3 && layout.samples <= 8 && whole_bytes ? absl::OkStatus()
                                                                       : unsupported();
    case PHOTOMETRIC_YCBCR:
      return layout.samples == 3 && layout.bits == 8 ? absl::OkStatus() : unsupported();
    case PHOTOMETRIC_SEPARATED:
      return layout.samples == 4 && layout.bits == 8 ? absl::OkStatus() : unsupported();
    default:
      return unsupported();
  }
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

// What each value of a picture of one colour channel looks like.
absl::StatusOr<Palette> ReadPalette(TIFF* tiff, const Layout& layout) {
  Palette palette{};
  const int entries = layout.bits >= 8 ? 256 : 1 << layout.bits;
  if (layout.photometric != PHOTOMETRIC_PALETTE) {
    for (int i = 0; i < entries; ++i) {
      const int grey = i * 255 / (entries - 1);
      palette[i].fill(
          static_cast<uint8_t>(layout.photometric == PHOTOMETRIC_MINISWHITE ? 255 - grey : grey));
    }
    return palette;
  }
  std::array<uint16_t*, 3> maps{};
  if (TIFFGetField(tiff, TIFFTAG_COLORMAP, &maps[0], &maps[1], &maps[2]) == 0)
    return DamagedPicture(kTiff, "no palette");
  // The values are of 16 bits, but some writers store bytes.
  bool bytes = true;
  for (const uint16_t* map : maps) bytes &= *std::max_element(map, map + entries) < 256;
  for (int i = 0; i < entries; ++i) {
    for (int c = 0; c < 3; ++c)
      palette[i][c] = static_cast<uint8_t>(bytes ? maps[c][i] : maps[c][i] >> 8);
  }
  return palette;
}

// Sample i of a row, its upper byte where it has two.
int Sample(const uint8_t* row, size_t i, int bits) {
  if (bits == 8) return row[i];
  if (bits == 16) {
    uint16_t value = 0;
    std::memcpy(&value, row + 2 * i, sizeof(value));
    return value >> 8;
  }
  const size_t first_bit = i * bits;
  return row[first_bit / 8] >> (8 - bits - first_bit % 8) & ((1 << bits) - 1);
}

// Stores `pixels` pixels of a row; `plane` is the channel where planes are apart.
void StoreRow(const uint8_t* row, size_t pixels, const Layout& layout, const Palette& palette,
              int plane, uint8_t* rgb) {
  const size_t step = layout.samples_a_pixel();
  for (size_t x = 0; x < pixels; ++x, rgb += 3) {
    if (layout.photometric != PHOTOMETRIC_RGB) {
      std::copy_n(palette[Sample(row, x * step, layout.bits)].begin(), 3, rgb);
    } else if (layout.separate()) {
      rgb[plane] = static_cast<uint8_t>(Sample(row, x, layout.bits));
    } else {
      for (size_t c = 0; c < 3; ++c)
        rgb[c] = static_cast<uint8_t>(Sample(row, x * step + c, layout.bits));
    }
  }
}

absl::Status ReadStrips(TIFF* tiff, const Layout& layout, const Palette& palette, int plane,
                        uint8_t* rgb) {
  const tmsize_t row_bytes = TIFFScanlineSize(tiff);
  if (row_bytes < static_cast<tmsize_t>(layout.RowBytes(layout.width)))
    return DamagedPicture(kTiff, "rows of an impossible size");
  std::vector<uint8_t> row(row_bytes);
  for (uint32_t y = 0; y < layout.height; ++y) {
    if (TIFFReadScanline(tiff, row.data(), y, static_cast<uint16_t>(plane)) != 1)
      return DamagedPicture(kTiff, "the pixels are broken or cut short");
    StoreRow(row.data(), layout.width, layout, palette, plane, rgb + size_t{3} * y * layout.width);
  }
  return absl::OkStatus();
}

absl::Status ReadTiles(TIFF* tiff, const Layout& layout, const Palette& palette, int plane,
                       const DecodeLimits& limits, uint8_t* rgb) {
  uint32_t tile_width = 0, tile_height = 0;
  if (TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width) == 0 ||
      TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height) == 0 || tile_width == 0 ||
      tile_height == 0)
    return DamagedPicture(kTiff, "tiles without a size");
  // A tile may be far larger than the picture.
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, tile_width, tile_height, limits));
  const size_t row_bytes = layout.RowBytes(tile_width);
  const tmsize_t tile_bytes = TIFFTileSize(tiff);
  if (tile_bytes < static_cast<tmsize_t>(row_bytes * tile_height))
    return DamagedPicture(kTiff, "tiles of an impossible size");
  std::vector<uint8_t> tile(tile_bytes);
  for (uint32_t top = 0; top < layout.height; top += tile_height) {
    const uint32_t rows = std::min(tile_height, layout.height - top);
    for (uint32_t left = 0; left < layout.width; left += tile_width) {
      const uint32_t columns = std::min(tile_width, layout.width - left);
      if (TIFFReadTile(tiff, tile.data(), left, top, 0, static_cast<uint16_t>(plane)) < 0)
        return DamagedPicture(kTiff, "the pixels are broken or cut short");
      for (uint32_t y = 0; y < rows; ++y)
        StoreRow(tile.data() + y * row_bytes, columns, layout, palette, plane,
                 rgb + size_t{3} * (size_t{top + y} * layout.width + left));
    }
  }
  return absl::OkStatus();
}

// YCbCr and CMYK, through libtiff's own conversion.
absl::Status ReadConverted(TIFF* tiff, const Layout& layout, uint8_t* rgb) {
  std::vector<uint32_t> pixels(size_t{layout.width} * layout.height);
  // Asked for in the file's own orientation, libtiff turns nothing.
  if (TIFFReadRGBAImageOriented(tiff, layout.width, layout.height, pixels.data(),
                                layout.orientation, /*stopOnError=*/1) != 1)
    return DamagedPicture(kTiff, "the pixels are broken or cut short");
  for (const uint32_t pixel : pixels) {
    *rgb++ = static_cast<uint8_t>(TIFFGetR(pixel));
    *rgb++ = static_cast<uint8_t>(TIFFGetG(pixel));
    *rgb++ = static_cast<uint8_t>(TIFFGetB(pixel));
  }
  return absl::OkStatus();
}

absl::Status ReadPixels(TIFF* tiff, const Layout& layout, const DecodeLimits& limits,
                        uint8_t* rgb) {
  if (layout.photometric == PHOTOMETRIC_YCBCR || layout.photometric == PHOTOMETRIC_SEPARATED)
    return ReadConverted(tiff, layout, rgb);
  DEFORM_ASSIGN_OR_RETURN(const Palette palette, ReadPalette(tiff, layout));
  const int planes = layout.separate() && layout.photometric == PHOTOMETRIC_RGB ? 3 : 1;
  for (int plane = 0; plane < planes; ++plane) {
    DEFORM_RETURN_IF_ERROR(TIFFIsTiled(tiff) != 0
                               ? ReadTiles(tiff, layout, palette, plane, limits, rgb)
                               : ReadStrips(tiff, layout, palette, plane, rgb));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PictureHeader> ReadTiffHeader(std::string_view encoded) {
  MemoryFile file{encoded};
  DEFORM_ASSIGN_OR_RETURN(const TiffFile tiff, Open(&file));
  DEFORM_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(tiff.get()));
  return PictureHeader{.format = kTiff,
                       .width = static_cast<int>(layout.width),
                       .height = static_cast<int>(layout.height)};
}

absl::StatusOr<StoredPicture> DecodeTiff(std::string_view encoded, const DecodeLimits& limits) {
  MemoryFile file{encoded};
  DEFORM_ASSIGN_OR_RETURN(const TiffFile tiff, Open(&file));
  DEFORM_ASSIGN_OR_RETURN(const Layout layout, ReadLayout(tiff.get()));
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, layout.width, layout.height, limits));
  DEFORM_RETURN_IF_ERROR(CheckSupported(layout));
  StoredPicture stored;
  stored.picture.width = static_cast<int>(layout.width);
  stored.picture.height = static_cast<int>(layout.height);
  stored.picture.rgb.resize(size_t{3} * layout.width * layout.height);
  DEFORM_RETURN_IF_ERROR(ReadPixels(tiff.get(), layout, limits, stored.picture.rgb.data()));
  if (layout.orientation >= 1 && layout.orientation <= 8) stored.orientation = layout.orientation;
  return stored;
}

}  // namespace deform::pipeline
