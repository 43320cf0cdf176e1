#include "results/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace deform::client {
namespace {

struct Source {
  std::string_view bytes;
  size_t position = 0;
};

void ReadBytes(png_structp png, png_bytep into, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (count > source->bytes.size() - source->position) png_error(png, "it ends too early");
  std::memcpy(into, source->bytes.data() + source->position, count);
  source->position += count;
}

void KeepError(png_structp png, png_const_charp message) {
  *static_cast<std::string*>(png_get_error_ptr(png)) = message;
  std::longjmp(png_jmpbuf(png), 1);
}

void IgnoreWarning(png_structp, png_const_charp) {}

// Owns libpng's two structures.
struct Reader {
  explicit Reader(std::string* error)
      : png(png_create_read_struct(PNG_LIBPNG_VER_STRING, error, KeepError, IgnoreWarning)),
        info(png != nullptr ? png_create_info_struct(png) : nullptr) {}
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  png_structp png;
  png_infop info;
};

struct Writer {
  explicit Writer(std::string* error)
      : png(png_create_write_struct(PNG_LIBPNG_VER_STRING, error, KeepError, IgnoreWarning)),
        info(png != nullptr ? png_create_info_struct(png) : nullptr) {}
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  png_structp png;
  png_infop info;
};

void AppendBytes(png_structp png, png_bytep bytes, size_t count) {
  static_cast<std::string*>(png_get_io_ptr(png))
      ->append(reinterpret_cast<const char*>(bytes), count);
}

void NothingToFlush(png_structp) {}

// libpng leaves by longjmp, so nothing with a destructor is made in the two functions below. False:
// the error is in the string given to Reader or Writer.
bool WriteRows(Writer& writer, const uint8_t* rgb, int width, int height) {
  if (setjmp(png_jmpbuf(writer.png))) return false;
  // Photographs hardly get smaller at higher levels, which take several times as long.
  png_set_compression_level(writer.png, 3);
  png_set_filter(writer.png, PNG_FILTER_TYPE_BASE, PNG_FILTER_SUB | PNG_FILTER_UP);
  png_set_IHDR(writer.png, writer.info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  for (int y = 0; y < height; ++y) {
    png_write_row(writer.png, rgb + static_cast<size_t>(y) * width * 3);
  }
  png_write_end(writer.png, writer.info);
  return true;
}

bool ReadInto(Reader& reader, std::string& error, GreyPicture& picture,
              std::vector<png_byte>& row) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_info(reader.png, reader.info);
  const int depth = png_get_bit_depth(reader.png, reader.info);
  if (png_get_color_type(reader.png, reader.info) != PNG_COLOR_TYPE_GRAY ||
      (depth != 8 && depth != 16)) {
    error = "it isn't grey with 8 or 16 bits";
    return false;
  }
  if (png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE) {
    error = "it is interlaced";
    return false;
  }
  if (static_cast<int64_t>(png_get_image_width(reader.png, reader.info)) != picture.width ||
      static_cast<int64_t>(png_get_image_height(reader.png, reader.info)) != picture.height) {
    error = "its size isn't the picture's";
    return false;
  }
  picture.samples.resize(static_cast<size_t>(picture.width) * picture.height);
  row.resize(png_get_rowbytes(reader.png, reader.info));
  uint16_t* sample = picture.samples.data();
  for (int y = 0; y < picture.height; ++y) {
    png_read_row(reader.png, row.data(), nullptr);
    for (int x = 0; x < picture.width; ++x) {
      *sample++ = depth == 8 ? row[x] : static_cast<uint16_t>(row[2 * x] << 8 | row[2 * x + 1]);
    }
  }
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

absl::StatusOr<GreyPicture> ReadGreyPng(std::string_view png, int width, int height) {
  std::string error = "out of memory";
  Reader reader(&error);
  if (reader.info == nullptr) return absl::ResourceExhaustedError(error);
  Source source{png};
  png_set_read_fn(reader.png, &source, ReadBytes);
  GreyPicture picture{width, height, {}};
  std::vector<png_byte> row;
  if (!ReadInto(reader, error, picture, row)) {
    return absl::InvalidArgumentError(absl::StrCat("PNG can't be used: ", error));
  }
  return picture;
}

absl::StatusOr<std::string> WriteRgbPng(const std::vector<uint8_t>& rgb, int width, int height) {
  std::string error = "out of memory";
  Writer writer(&error);
  if (writer.info == nullptr) return absl::ResourceExhaustedError(error);
  std::string png;
  png_set_write_fn(writer.png, &png, AppendBytes, NothingToFlush);
  if (!WriteRows(writer, rgb.data(), width, height)) {
    return absl::InternalError(absl::StrCat("PNG can't be written: ", error));
  }
  return png;
}

}  // namespace deform::client
