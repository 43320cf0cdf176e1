#include "cli/picture_files.h"

#include <utility>

#include "base/error.h"
#include "cli/files.h"
#include "drawing/canvas.h"
#include "drawing/draw_response.h"
#include "pipeline/picture.h"
#include "results/output_names.h"
#include "results/png.h"

namespace deform::client {

absl::StatusOr<ResultFiles> WritePictureFiles(const std::filesystem::path& folder,
                                              const std::string& name, std::string_view encoded,
                                              const segmentation::v1::SegmentResponse& response,
                                              const LabelColors& colors) {
  ResultFiles files;
  if (!response.id_map().png().empty()) {
    files.id_map = IdMapFileName(name);
    DEFORM_RETURN_IF_ERROR(WriteFile(folder / files.id_map, response.id_map().png()));
  }
  for (const auto& segment : response.segments()) {
    if (!segment.has_png()) continue;
    files.masks.push_back(MaskFileName(name, segment.id()));
    DEFORM_RETURN_IF_ERROR(WriteFile(folder / files.masks.back(), segment.png()));
  }

  // The server's own decoder, so that the masks lie where they belong. The server has judged the
  // picture's size already.
  pipeline::DecodeLimits limits;
  limits.max_pixels = static_cast<int64_t>(response.width()) * response.height();
  DEFORM_ASSIGN_OR_RETURN(pipeline::Picture picture, pipeline::DecodePicture(encoded, limits));
  const Canvas canvas(picture.width, picture.height, std::move(picture.rgb));
  DEFORM_ASSIGN_OR_RETURN(const Canvas drawn, DrawResponse(canvas, response, colors));
  DEFORM_ASSIGN_OR_RETURN(const std::string png,
                          WriteRgbPng(drawn.rgb(), drawn.width(), drawn.height()));
  files.overlay = OverlayFileName(name);
  DEFORM_RETURN_IF_ERROR(WriteFile(folder / files.overlay, png));
  return files;
}

}  // namespace deform::client
