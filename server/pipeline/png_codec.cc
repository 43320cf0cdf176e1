#include <png.h>

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/exif_orientation.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

constexpr auto kPng = PictureHeader::Format::kPng;

// One pass over one file; see JpegReader about longjmp.
class PngReader {
 public:
  explicit PngReader(std::string_view encoded) : rest_(encoded) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  absl::Status ReadHeader() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &OnError, &OnWarning);
    if (png_ == nullptr) return absl::ResourceExhaustedError("no memory to decode the picture");
    return Guarded([](PngReader* self) {
      png_structp png = self->png_;
      self->info_ = png_create_info_struct(png);
      png_set_read_fn(png, self, &OnRead);
      // Sizes are checked against the server's own limit, by name.
      png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      png_set_chunk_malloc_max(png, kChunkBytes);
      // Text and colour profiles are compressed and of no use here: not even inflated.
      static constexpr png_byte kSkipped[] = "iCCP\0iTXt\0tEXt\0zTXt";
      png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, kSkipped, 4);
      png_read_info(png, self->info_);
    });
  }

  // Fills rgb, [height, width, 3]. REQUIRES: ReadHeader was OK.
  absl::Status ReadPixels(uint8_t* rgb) {
    rgb_ = rgb;
    return Guarded([](PngReader* self) {
      png_structp png = self->png_;
      png_infop info = self->info_;
      const png_byte colour = png_get_color_type(png, info);
      if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
      if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
      if ((colour & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
      png_set_strip_16(png);  // v >> 8
      png_set_strip_alpha(png);
      const int passes = png_set_interlace_handling(png);
      png_read_update_info(png, info);
      const size_t row_bytes = size_t{3} * png_get_image_width(png, info);
      if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "unexpected row size");
      const png_uint_32 height = png_get_image_height(png, info);
      for (int pass = 0; pass < passes; ++pass) {
        for (png_uint_32 y = 0; y < height; ++y)
          png_read_row(png, self->rgb_ + y * row_bytes, nullptr);
      }
      png_read_end(png, info);
    });
  }

  int width() const { return static_cast<int>(png_get_image_width(png_, info_)); }
  int height() const { return static_cast<int>(png_get_image_height(png_, info_)); }

  int Orientation() const {
    png_uint_32 size = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &size, &exif) == 0) return 1;
    return ParseExifOrientation({reinterpret_cast<const char*>(exif), size});
  }

 private:
  static constexpr png_alloc_size_t kChunkBytes = 8 << 20;

  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof(self->message_) - 1);
    longjmp(self->jump_, 1);
  }
  static void OnWarning(png_structp, png_const_charp) {}

  static void OnRead(png_structp png, png_bytep to, size_t size) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (self->rest_.size() < size) png_error(png, "premature end");
    std::memcpy(to, self->rest_.data(), size);
    self->rest_.remove_prefix(size);
  }

  absl::Status Guarded(void (*step)(PngReader*)) {
    if (setjmp(jump_) == 0) {
      step(this);
      return absl::OkStatus();
    }
    return DamagedPicture(kPng, message_);
  }

  std::string_view rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_;
  uint8_t* rgb_ = nullptr;
  char message_[128] = {};
};

}  // namespace

absl::StatusOr<PictureHeader> ReadPngHeader(std::string_view encoded) {
  PngReader reader(encoded);
  DEFORM_RETURN_IF_ERROR(reader.ReadHeader());
  return PictureHeader{.format = kPng, .width = reader.width(), .height = reader.height()};
}

absl::StatusOr<StoredPicture> DecodePng(std::string_view encoded, const DecodeLimits& limits) {
  PngReader reader(encoded);
  DEFORM_RETURN_IF_ERROR(reader.ReadHeader());
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, reader.width(), reader.height(), limits));
  StoredPicture stored;
  stored.picture.width = reader.width();
  stored.picture.height = reader.height();
  stored.picture.rgb.resize(size_t{3} * reader.width() * reader.height());
  DEFORM_RETURN_IF_ERROR(reader.ReadPixels(stored.picture.rgb.data()));
  stored.orientation = reader.Orientation();  // the chunk may follow the pixels
  return stored;
}

}  // namespace deform::pipeline
