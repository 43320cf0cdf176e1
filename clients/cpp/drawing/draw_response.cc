#include "drawing/draw_response.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "base/error.h"
#include "drawing/overlay.h"
#include "results/mask.h"
#include "results/png.h"

namespace deform::client {
namespace {

using segmentation::v1::Segment;
using segmentation::v1::SegmentResponse;
using segmentation::v1::Task;

Mask MaskWhere(const GreyPicture& grey, uint16_t value) {
  Mask mask{grey.width, grey.height, std::vector<uint8_t>(grey.samples.size())};
  std::transform(grey.samples.begin(), grey.samples.end(), mask.inside.begin(),
                 [value](uint16_t sample) { return sample == value ? 1 : 0; });
  return mask;
}

absl::StatusOr<std::optional<Mask>> MaskOf(const Segment& segment, Task task,
                                           const std::optional<GreyPicture>& id_map, int width,
                                           int height) {
  if (segment.has_coco_rle()) {
    DEFORM_ASSIGN_OR_RETURN(Mask mask, DecodeCocoRle(segment.coco_rle().counts(), width, height));
    return mask;
  }
  if (segment.has_png()) {
    DEFORM_ASSIGN_OR_RETURN(const GreyPicture grey, ReadGreyPng(segment.png(), width, height));
    return MaskWhere(grey, 255);
  }
  if (id_map) {
    return MaskWhere(*id_map, static_cast<uint16_t>(task == Task::TASK_SEMANTIC ? segment.label_id()
                                                                                : segment.id()));
  }
  return std::optional<Mask>();
}

// A colour for each segment, in the answer's order.
std::vector<Color> SegmentColors(const SegmentResponse& response, const LabelColors& colors) {
  std::map<int32_t, int> instances;
  std::vector<Color> chosen;
  chosen.reserve(response.segments_size());
  for (const Segment& segment : response.segments()) {
    const bool one_a_class =
        response.task() == Task::TASK_SEMANTIC || (segment.has_is_thing() && !segment.is_thing());
    const int index = one_a_class ? 0 : instances[segment.label_id()]++;
    chosen.push_back(InstanceShade(colors.Of(segment.label_id()), index));
  }
  return chosen;
}

}  // namespace

absl::StatusOr<Canvas> DrawResponse(const Canvas& picture, const SegmentResponse& response,
                                    const LabelColors& colors) {
  const int width = picture.width();
  const int height = picture.height();
  if (static_cast<int64_t>(response.width()) != width ||
      static_cast<int64_t>(response.height()) != height) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the answer is for %d×%d pixels, the picture has %d×%d", response.width(),
                        response.height(), width, height));
  }
  std::optional<GreyPicture> id_map;
  if (!response.id_map().png().empty()) {
    DEFORM_ASSIGN_OR_RETURN(id_map, ReadGreyPng(response.id_map().png(), width, height));
  }
  DEFORM_ASSIGN_OR_RETURN(Overlay overlay, Overlay::Begin(picture));

  const std::vector<Color> segment_colors = SegmentColors(response, colors);
  std::vector<int> largest_first(response.segments_size());
  std::iota(largest_first.begin(), largest_first.end(), 0);
  std::stable_sort(largest_first.begin(), largest_first.end(), [&](int a, int b) {
    return response.segments(a).area() > response.segments(b).area();
  });
  // One mask at a time: hundreds of them, of a large picture, wouldn't fit in memory.
  for (const int i : largest_first) {
    const Segment& segment = response.segments(i);
    DEFORM_ASSIGN_OR_RETURN(std::optional<Mask> mask,
                            MaskOf(segment, response.task(), id_map, width, height));
    DEFORM_RETURN_IF_ERROR(overlay.Draw({
        .text = absl::StrFormat("%s %.2f", segment.label(), segment.score()),
        .color = segment_colors[i],
        .x = segment.box().x(),
        .y = segment.box().y(),
        .width = segment.box().width(),
        .height = segment.box().height(),
        .is_ground = segment.has_is_thing() && !segment.is_thing(),
        .mask = std::move(mask),
    }));
  }
  return std::move(overlay).Finish();
}

}  // namespace deform::client
