#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

constexpr auto kGif = PictureHeader::Format::kGif;

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};
using GifFile = std::unique_ptr<GifFileType, CloseGif>;

int ReadBytes(GifFileType* gif, GifByteType* to, int size) {
  auto* rest = static_cast<std::string_view*>(gif->UserData);
  const size_t read = std::min(rest->size(), static_cast<size_t>(std::max(size, 0)));
  std::memcpy(to, rest->data(), read);
  rest->remove_prefix(read);
  return static_cast<int>(read);
}

// Reads up to the first frame's descriptor and no further: a file's later frames cost nothing.
// `rest` outlives the result.
absl::StatusOr<GifFile> OpenFirstFrame(std::string_view* rest) {
  GifFile gif(DGifOpen(rest, &ReadBytes, nullptr));
  if (gif == nullptr) return DamagedPicture(kGif, "the header is broken or cut short");
  while (true) {
    GifRecordType record = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif.get(), &record) == GIF_ERROR)
      return DamagedPicture(kGif, "premature end");
    if (record == TERMINATE_RECORD_TYPE) return DamagedPicture(kGif, "no frame");
    if (record == IMAGE_DESC_RECORD_TYPE) {
      if (DGifGetImageDesc(gif.get()) == GIF_ERROR)
        return DamagedPicture(kGif, "the first frame's header is broken");
      return gif;
    }
    int code = 0;
    GifByteType* block = nullptr;
    bool fine = DGifGetExtension(gif.get(), &code, &block) != GIF_ERROR;
    while (fine && block != nullptr) fine = DGifGetExtensionNext(gif.get(), &block) != GIF_ERROR;
    if (!fine) return DamagedPicture(kGif, "an extension is broken or cut short");
  }
}

// The canvas, grown where the first frame reaches beyond it.
absl::StatusOr<PictureHeader> CanvasSize(const GifFileType& gif) {
  const GifImageDesc& frame = gif.Image;
  if (frame.Width <= 0 || frame.Height <= 0 || frame.Left < 0 || frame.Top < 0)
    return DamagedPicture(kGif, "an empty first frame");
  return PictureHeader{.format = kGif,
                       .width = std::max<int>(gif.SWidth, frame.Left + frame.Width),
                       .height = std::max<int>(gif.SHeight, frame.Top + frame.Height)};
}

using Palette = std::array<std::array<uint8_t, 3>, 256>;

Palette ReadPalette(const ColorMapObject* map) {
  Palette palette{};
  for (int i = 0; map != nullptr && i < std::min(map->ColorCount, 256); ++i)
    palette[i] = {map->Colors[i].Red, map->Colors[i].Green, map->Colors[i].Blue};
  return palette;
}

void Fill(Picture& picture, const std::array<uint8_t, 3>& colour) {
  for (size_t i = 0; i < picture.rgb.size(); i += 3)
    std::copy(colour.begin(), colour.end(), picture.rgb.begin() + static_cast<ptrdiff_t>(i));
}

absl::Status ReadFrame(GifFileType* gif, const Palette& palette, Picture& canvas) {
  const GifImageDesc& frame = gif->Image;
  struct Pass {
    int first, step;
  };
  constexpr Pass kInterlaced[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
  constexpr Pass kSequential[] = {{0, 1}};
  std::vector<GifPixelType> line(frame.Width);
  const Pass* passes = frame.Interlace ? kInterlaced : kSequential;
  for (int pass = 0; pass < (frame.Interlace ? 4 : 1); ++pass) {
    for (int y = passes[pass].first; y < frame.Height; y += passes[pass].step) {
      if (DGifGetLine(gif, line.data(), frame.Width) == GIF_ERROR)
        return DamagedPicture(kGif, "the first frame is broken or cut short");
      const size_t row = static_cast<size_t>(frame.Top + y) * canvas.width + frame.Left;
      uint8_t* to = &canvas.rgb[row * 3];
      for (const GifPixelType index : line) to = std::copy_n(palette[index].begin(), 3, to);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PictureHeader> ReadGifHeader(std::string_view encoded) {
  DEFORM_ASSIGN_OR_RETURN(const GifFile gif, OpenFirstFrame(&encoded));
  return CanvasSize(*gif);
}

absl::StatusOr<StoredPicture> DecodeGif(std::string_view encoded, const DecodeLimits& limits) {
  DEFORM_ASSIGN_OR_RETURN(const GifFile gif, OpenFirstFrame(&encoded));
  DEFORM_ASSIGN_OR_RETURN(const PictureHeader header, CanvasSize(*gif));
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, header.width, header.height, limits));
  const ColorMapObject* map = gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap;
  if (map == nullptr) return DamagedPicture(kGif, "no colour table");

  StoredPicture stored;
  stored.picture.width = header.width;
  stored.picture.height = header.height;
  stored.picture.rgb.resize(size_t{3} * header.width * header.height);
  Fill(stored.picture, ReadPalette(gif->SColorMap)[gif->SBackGroundColor & 255]);
  DEFORM_RETURN_IF_ERROR(ReadFrame(gif.get(), ReadPalette(map), stored.picture));
  return stored;
}

}  // namespace deform::pipeline
