#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h wants it first
#include <string>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/exif_orientation.h"
#include "pipeline/picture_errors.h"

#include <jpeglib.h>
// After jpeglib.h, whose macros it uses.
#include <jerror.h>

namespace deform::pipeline {
namespace {

constexpr auto kJpeg = PictureHeader::Format::kJpeg;

// Each scan of a progressive file passes over the whole picture, however few bytes it has, so a
// large picture is allowed fewer. Encoders write about ten.
int AllowedScans(int64_t pixels, int max_scans) {
  constexpr int64_t kScannedPixels = 2'000'000'000;
  constexpr int64_t kAlwaysAllowed = 32;
  return static_cast<int>(
      std::min<int64_t>(max_scans, std::max(kAlwaysAllowed, kScannedPixels / pixels)));
}

// One pass over one file. libjpeg leaves its functions by longjmp on errors, which must not cross
// a C++ frame with anything to destroy: each step is a plain function that keeps what it needs
// here, and Guarded is the one place that jumps land in.
class JpegReader {
 public:
  explicit JpegReader(std::string_view encoded) : encoded_(encoded) {
    cinfo_.err = jpeg_std_error(&errors_);
    cinfo_.client_data = this;
    errors_.error_exit = &OnError;
    errors_.emit_message = &OnMessage;
    errors_.output_message = [](j_common_ptr) {};
    progress_.progress_monitor = &OnProgress;
  }
  ~JpegReader() {
    if (created_) jpeg_destroy_decompress(&cinfo_);
  }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  absl::Status ReadHeader() {
    return Guarded([](JpegReader* self) {
      jpeg_create_decompress(&self->cinfo_);
      self->created_ = true;
      self->cinfo_.client_data = self;
      self->cinfo_.progress = &self->progress_;
      jpeg_mem_src(&self->cinfo_, reinterpret_cast<const unsigned char*>(self->encoded_.data()),
                   self->encoded_.size());
      jpeg_save_markers(&self->cinfo_, JPEG_APP0 + 1, 0xFFFF);
      jpeg_read_header(&self->cinfo_, TRUE);
    });
  }

  // Fills rgb, [height, width, 3]. REQUIRES: ReadHeader was OK.
  absl::Status ReadPixels(int max_scans, uint8_t* rgb) {
    max_scans_ = max_scans;
    switch (cinfo_.jpeg_color_space) {
      case JCS_GRAYSCALE:
      case JCS_RGB:
      case JCS_YCbCr:
        cinfo_.out_color_space = JCS_RGB;
        break;
      case JCS_CMYK:
      case JCS_YCCK:
        cinfo_.out_color_space = JCS_CMYK;
        break;
      default:
        return UnsupportedPicture("JPEG with " + std::to_string(cinfo_.num_components) +
                                  " components");
    }
    rgb_ = rgb;
    return Guarded([](JpegReader* self) {
      j_decompress_ptr cinfo = &self->cinfo_;
      jpeg_start_decompress(cinfo);
      const size_t row_bytes = size_t{cinfo->output_width} * 3;
      if (cinfo->out_color_space == JCS_RGB) {
        while (cinfo->output_scanline < cinfo->output_height) {
          JSAMPROW row = self->rgb_ + cinfo->output_scanline * row_bytes;
          jpeg_read_scanlines(cinfo, &row, 1);
        }
      } else {
        JSAMPARRAY inks = cinfo->mem->alloc_sarray(reinterpret_cast<j_common_ptr>(cinfo),
                                                   JPOOL_IMAGE, cinfo->output_width * 4, 1);
        while (cinfo->output_scanline < cinfo->output_height) {
          uint8_t* row = self->rgb_ + cinfo->output_scanline * row_bytes;
          jpeg_read_scanlines(cinfo, inks, 1);
          ConvertInks(inks[0], cinfo->output_width, row);
        }
      }
      // Reads on to the end marker: a file that lacks it was cut short somewhere.
      jpeg_finish_decompress(cinfo);
    });
  }

  int width() const { return static_cast<int>(cinfo_.image_width); }
  int height() const { return static_cast<int>(cinfo_.image_height); }

  int Orientation() const {
    for (jpeg_saved_marker_ptr marker = cinfo_.marker_list; marker; marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (marker->marker == JPEG_APP0 + 1 && data.substr(0, 4) == "Exif")
        return ParseExifOrientation(data);
    }
    return 1;
  }

 private:
  static JpegReader* From(j_common_ptr cinfo) {
    return static_cast<JpegReader*>(cinfo->client_data);
  }

  [[noreturn]] static void OnError(j_common_ptr cinfo) { longjmp(From(cinfo)->jump_, 1); }

  // libjpeg goes on after damage and makes pixels up; stop at warnings that mean pixels were lost.
  // Others (stray bytes between segments, odd JFIF versions) leave the picture right.
  static void OnMessage(j_common_ptr cinfo, int level) {
    if (level >= 0) return;
    switch (cinfo->err->msg_code) {
      case JWRN_HIT_MARKER:
      case JWRN_JPEG_EOF:
      case JWRN_HUFF_BAD_CODE:
      case JWRN_ARITH_BAD_CODE:
      case JWRN_MUST_RESYNC:
        OnError(cinfo);
      default:
        break;
    }
  }

  static void OnProgress(j_common_ptr cinfo) {
    JpegReader* self = From(cinfo);
    if (self->cinfo_.input_scan_number <= self->max_scans_) return;
    self->too_many_scans_ = true;
    OnError(cinfo);
  }

  // Adobe's programs store 255 − ink, and files that don't say are taken the same way, as browsers
  // and Pillow do. With k = stored black, each channel is c·k/255, rounded as Pillow rounds it.
  static void ConvertInks(const uint8_t* inks, JDIMENSION width, uint8_t* rgb) {
    for (JDIMENSION x = 0; x < width; ++x, inks += 4, rgb += 3) {
      const int black = inks[3];
      for (int c = 0; c < 3; ++c) {
        const int product = (255 - inks[c]) * black + 128;
        rgb[c] = static_cast<uint8_t>(black - (((product >> 8) + product) >> 8));
      }
    }
  }

  absl::Status Guarded(void (*step)(JpegReader*)) {
    if (setjmp(jump_) == 0) {
      step(this);
      return absl::OkStatus();
    }
    return Failure();
  }

  absl::Status Failure() {
    if (too_many_scans_)
      return DamagedPicture(kJpeg, "more than " + std::to_string(max_scans_) + " scans");
    switch (errors_.msg_code) {
      case JERR_SOF_UNSUPPORTED:
      case JERR_BAD_PRECISION:
      case JERR_CONVERSION_NOTIMPL:
      case JERR_ARITH_NOTIMPL:
        return UnsupportedPicture("this kind of JPEG (lossless, hierarchical or 12-bit)");
      default:
        break;
    }
    char message[JMSG_LENGTH_MAX];
    (*errors_.format_message)(reinterpret_cast<j_common_ptr>(&cinfo_), message);
    return DamagedPicture(kJpeg, message);
  }

  std::string_view encoded_;
  int max_scans_ = 0;
  jpeg_decompress_struct cinfo_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_;
  uint8_t* rgb_ = nullptr;
  bool created_ = false;
  bool too_many_scans_ = false;
};

}  // namespace

absl::StatusOr<PictureHeader> ReadJpegHeader(std::string_view encoded) {
  JpegReader reader(encoded);
  DEFORM_RETURN_IF_ERROR(reader.ReadHeader());
  return PictureHeader{.format = kJpeg, .width = reader.width(), .height = reader.height()};
}

absl::StatusOr<StoredPicture> DecodeJpeg(std::string_view encoded, const DecodeLimits& limits) {
  JpegReader reader(encoded);
  DEFORM_RETURN_IF_ERROR(reader.ReadHeader());
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, reader.width(), reader.height(), limits));
  StoredPicture stored;
  stored.orientation = reader.Orientation();
  stored.picture.width = reader.width();
  stored.picture.height = reader.height();
  stored.picture.rgb.resize(size_t{3} * reader.width() * reader.height());
  const int max_scans =
      AllowedScans(int64_t{reader.width()} * reader.height(), limits.max_jpeg_scans);
  DEFORM_RETURN_IF_ERROR(reader.ReadPixels(max_scans, stored.picture.rgb.data()));
  return stored;
}

}  // namespace deform::pipeline
