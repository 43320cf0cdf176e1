#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {
namespace {

// Writes one grey PNG; see JpegReader about longjmp.
class GreyPngWriter {
 public:
  GreyPngWriter() = default;
  ~GreyPngWriter() { png_destroy_write_struct(&png_, &info_); }
  GreyPngWriter(const GreyPngWriter&) = delete;
  GreyPngWriter& operator=(const GreyPngWriter&) = delete;

  // pixels: [height, width] of one byte a pixel, or of two, big-endian.
  absl::StatusOr<std::string> Write(const uint8_t* pixels, int width, int height, int bytes) {
    pixels_ = pixels;
    width_ = width;
    height_ = height;
    bytes_ = bytes;
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, &OnError, &OnWarning);
    if (png_ == nullptr || !Guarded(&WriteAll)) return absl::InternalError("encoding a PNG failed");
    return std::move(encoded_);
  }

 private:
  static void WriteAll(GreyPngWriter* self) {
    png_structp png = self->png_;
    self->info_ = png_create_info_struct(png);
    png_set_write_fn(png, self, &OnWrite, &OnFlush);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    // Flat areas: run lengths find all there is to find, in the least time.
    png_set_compression_level(png, 1);
    png_set_compression_strategy(png, Z_RLE);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, PNG_FILTER_NONE);
    png_set_IHDR(png, self->info_, self->width_, self->height_, 8 * self->bytes_,
                 PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, self->info_);
    const size_t row_bytes = static_cast<size_t>(self->width_) * self->bytes_;
    for (int y = 0; y < self->height_; ++y) png_write_row(png, self->pixels_ + y * row_bytes);
    png_write_end(png, self->info_);
  }

  [[noreturn]] static void OnError(png_structp png, png_const_charp) {
    longjmp(static_cast<GreyPngWriter*>(png_get_error_ptr(png))->jump_, 1);
  }
  static void OnWarning(png_structp, png_const_charp) {}
  static void OnWrite(png_structp png, png_bytep from, size_t size) {
    static_cast<GreyPngWriter*>(png_get_io_ptr(png))
        ->encoded_.append(reinterpret_cast<const char*>(from), size);
  }
  static void OnFlush(png_structp) {}

  bool Guarded(void (*step)(GreyPngWriter*)) {
    if (setjmp(jump_) != 0) return false;
    step(this);
    return true;
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  std::string encoded_;
  const uint8_t* pixels_ = nullptr;
  int width_ = 0, height_ = 0, bytes_ = 1;
};

}  // namespace

absl::StatusOr<std::string> EncodeIdMapPng(const IdMap& id_map) {
  int32_t least = 0, most = 0;
  for (const int32_t id : id_map.ids) {
    least = std::min(least, id);
    most = std::max(most, id);
  }
  if (least < 0 || most > 65535) return absl::InternalError("an id map needs more than 16 bits");
  const int bytes = most > 255 ? 2 : 1;
  std::vector<uint8_t> pixels(id_map.ids.size() * bytes);
  uint8_t* to = pixels.data();
  for (const int32_t id : id_map.ids) {
    if (bytes == 2) *to++ = static_cast<uint8_t>(id >> 8);
    *to++ = static_cast<uint8_t>(id);
  }
  return GreyPngWriter().Write(pixels.data(), id_map.width, id_map.height, bytes);
}

absl::StatusOr<std::string> EncodeMaskPng(const Rle& mask) {
  std::vector<uint8_t> pixels = DecodeRle(mask);
  for (uint8_t& pixel : pixels) pixel = pixel != 0 ? 255 : 0;
  return GreyPngWriter().Write(pixels.data(), mask.width, mask.height, 1);
}

}  // namespace deform::pipeline
