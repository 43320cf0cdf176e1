#include "pipeline/picture_format.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

#include "base/error.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

using std::string_view_literals::operator""sv;

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// The four-letter brand of an ISO base media file, or nothing.
std::string_view MediaBrand(std::string_view encoded) {
  return encoded.size() >= 12 && encoded.substr(4, 4) == "ftyp" ? encoded.substr(8, 4)
                                                                : std::string_view();
}

std::string_view TellMarkup(std::string_view encoded) {
  constexpr size_t kLookedAt = 1024;
  if (StartsWith(encoded, "\xEF\xBB\xBF"sv)) encoded.remove_prefix(3);
  std::string text(encoded.substr(0, kLookedAt));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  if (!StartsWith(text, "<")) return "";
  if (text.find("<svg") != std::string::npos) return "SVG";
  if (text.find("<html") != std::string::npos || text.find("<!doctype html") != std::string::npos)
    return "an HTML page";
  return StartsWith(text, "<?xml") ? "XML" : "";
}

// Names a format that is not decoded here; empty when it can't be told.
std::string_view TellUnsupported(std::string_view encoded) {
  const std::string_view brand = MediaBrand(encoded);
  if (brand == "avif" || brand == "avis") return "AVIF";
  if (brand == "heic" || brand == "heix" || brand == "hevc" || brand == "heim" || brand == "heis" ||
      brand == "mif1" || brand == "msf1")
    return "HEIC";
  if (!brand.empty()) return "a video or another ISO media file";
  struct Magic {
    std::string_view prefix, name;
  };
  static constexpr Magic kMagics[] = {
      {"\0\0\0\x0CjP  \r\n\x87\n"sv, "JPEG 2000"},
      {"\xFF\x4F\xFF\x51"sv, "JPEG 2000"},
      {"\0\0\0\x0CJXL \r\n\x87\n"sv, "JPEG XL"},
      {"\xFF\x0A"sv, "JPEG XL"},
      {"%PDF-"sv, "PDF"},
      {"8BPS"sv, "a Photoshop document"},
      {"v/1\x01"sv, "OpenEXR"},
      {"\0\0\1\0"sv, "an icon file"},
      {"#?RADIANCE"sv, "Radiance HDR"},
      {"qoif"sv, "QOI"},
      {"P1\n"sv, "PNM"},
      {"P2\n"sv, "PNM"},
      {"P3\n"sv, "PNM"},
      {"P4\n"sv, "PNM"},
      {"P5\n"sv, "PNM"},
      {"P6\n"sv, "PNM"},
      {"P7\n"sv, "PNM"},
      {"PK\x03\x04"sv, "a ZIP archive"},
      {"\x1F\x8B"sv, "a gzip file"},
  };
  for (const Magic& magic : kMagics) {
    if (StartsWith(encoded, magic.prefix)) return magic.name;
  }
  return TellMarkup(encoded);
}

}  // namespace

absl::StatusOr<PictureHeader::Format> TellFormat(std::string_view encoded) {
  using Format = PictureHeader::Format;
  if (encoded.empty())
    return base::InvalidField(kEncodedField, "the picture is empty", "DAMAGED_IMAGE");
  if (StartsWith(encoded, "\xFF\xD8\xFF"sv)) return Format::kJpeg;
  if (StartsWith(encoded, "\x89PNG\r\n\x1A\n"sv)) return Format::kPng;
  if (StartsWith(encoded, "RIFF"sv) && encoded.size() >= 12 && encoded.substr(8, 4) == "WEBP")
    return Format::kWebp;
  if (StartsWith(encoded, "GIF87a"sv) || StartsWith(encoded, "GIF89a"sv)) return Format::kGif;
  if (StartsWith(encoded, "II*\0"sv) || StartsWith(encoded, "MM\0*"sv) ||
      StartsWith(encoded, "II+\0"sv) || StartsWith(encoded, "MM\0+"sv))
    return Format::kTiff;
  if (StartsWith(encoded, "BM"sv)) return Format::kBmp;
  const std::string_view name = TellUnsupported(encoded);
  return UnsupportedPicture(name.empty() ? "a format that can't be told from its content"sv : name);
}

}  // namespace deform::pipeline
