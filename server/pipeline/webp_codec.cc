#include <webp/decode.h>
#include <webp/demux.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.h"
#include "pipeline/codecs.h"
#include "pipeline/exif_orientation.h"
#include "pipeline/picture_errors.h"

namespace deform::pipeline {
namespace {

constexpr auto kWebp = PictureHeader::Format::kWebp;

const uint8_t* Bytes(std::string_view encoded) {
  return reinterpret_cast<const uint8_t*>(encoded.data());
}

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, DeleteDemuxer>;

int Orientation(WebPDemuxer* demuxer) {
  WebPChunkIterator chunk{};
  int orientation = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0)
    orientation =
        ParseExifOrientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return orientation;
}

// Decodes the first frame onto its place in a black canvas.
absl::Status DecodeFirstFrame(WebPDemuxer* demuxer, Picture& canvas) {
  WebPIterator frame{};
  const std::unique_ptr<WebPIterator, void (*)(WebPIterator*)> release(
      &frame, [](WebPIterator* iterator) { WebPDemuxReleaseIterator(iterator); });
  if (WebPDemuxGetFrame(demuxer, 1, &frame) == 0 || frame.complete == 0)
    return DamagedPicture(kWebp, "no complete frame");
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width > canvas.width - frame.x_offset ||
      frame.height > canvas.height - frame.y_offset)
    return DamagedPicture(kWebp, "a frame larger than its canvas");
  const size_t stride = size_t{3} * canvas.width;
  const size_t first = frame.y_offset * stride + size_t{3} * frame.x_offset;

  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return absl::InternalError("libwebp does not match");
  config.output.colorspace = MODE_RGB;  // leaves alpha out and colours as they are
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = canvas.rgb.data() + first;
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = canvas.rgb.size() - first;
  const VP8StatusCode status =
      WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &config.input);
  if (status != VP8_STATUS_OK || config.input.width != frame.width ||
      config.input.height != frame.height)
    return DamagedPicture(kWebp, "a frame's header is broken");
  if (WebPDecode(frame.fragment.bytes, frame.fragment.size, &config) != VP8_STATUS_OK)
    return DamagedPicture(kWebp, "the frame's data is broken or cut short");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PictureHeader> ReadWebpHeader(std::string_view encoded) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(Bytes(encoded), encoded.size(), &features) != VP8_STATUS_OK ||
      features.width <= 0 || features.height <= 0)
    return DamagedPicture(kWebp, "the header is broken or cut short");
  return PictureHeader{.format = kWebp, .width = features.width, .height = features.height};
}

absl::StatusOr<StoredPicture> DecodeWebp(std::string_view encoded, const DecodeLimits& limits) {
  DEFORM_ASSIGN_OR_RETURN(const PictureHeader header, ReadWebpHeader(encoded));
  DEFORM_RETURN_IF_ERROR(CheckPixelLimit(kEncodedField, header.width, header.height, limits));
  const WebPData data{Bytes(encoded), encoded.size()};
  const Demuxer demuxer(WebPDemux(&data));
  if (demuxer == nullptr) return DamagedPicture(kWebp, "a chunk is broken or cut short");

  StoredPicture stored;
  stored.picture.width = header.width;
  stored.picture.height = header.height;
  stored.picture.rgb.resize(size_t{3} * header.width * header.height);
  DEFORM_RETURN_IF_ERROR(DecodeFirstFrame(demuxer.get(), stored.picture));
  stored.orientation = Orientation(demuxer.get());
  return stored;
}

}  // namespace deform::pipeline
