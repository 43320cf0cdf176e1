#include "results/coco_results.h"

#include <cmath>
#include <set>

#include "absl/strings/ascii.h"
#include "drawing/colors.h"

namespace deform::client {
namespace {

using nlohmann::ordered_json;
using segmentation::v1::GetModelResponse;
using segmentation::v1::Segment;
using segmentation::v1::SegmentResponse;
using segmentation::v1::Task;

// Floats as people write them: 0.97, not 0.9700000286102295.
double Rounded(double value, double steps) { return std::round(value * steps) / steps; }

std::string TaskName(Task task) {
  return absl::AsciiStrToLower(Task_Name(task).substr(sizeof("TASK_") - 1));
}

// What annotations and segments_info share.
void AddMeasures(const Segment& segment, const std::string& mask_file, ordered_json& into) {
  into["category_id"] = segment.category_id();
  into["category_name"] = segment.label();
  if (segment.has_is_thing()) into["isthing"] = segment.is_thing() ? 1 : 0;
  into["score"] = Rounded(segment.score(), 1e6);
  into["bbox"] = {Rounded(segment.box().x(), 1e3), Rounded(segment.box().y(), 1e3),
                  Rounded(segment.box().width(), 1e3), Rounded(segment.box().height(), 1e3)};
  into["area"] = segment.area();
  into["iscrowd"] = 0;
  if (segment.has_coco_rle()) {
    into["segmentation"] = {{"size", segment.coco_rle().size()},
                            {"counts", segment.coco_rle().counts()}};
  }
  if (!mask_file.empty()) into["mask_file"] = mask_file;
}

void AppendList(const char* key, const std::vector<ordered_json>& items, std::string& text) {
  text += ",\n\"" + std::string(key) + "\": [";
  const char* separator = "\n";
  for (const ordered_json& item : items) {
    text += separator;
    // File names may be any bytes; what isn't UTF-8 becomes U+FFFD.
    text += item.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    separator = ",\n";
  }
  text += items.empty() ? "]" : "\n]";
}

}  // namespace

CocoResults::CocoResults(const GetModelResponse& model) {
  info_["model"] = model.summary().name();
  std::set<int32_t> seen;
  for (const auto& label : model.labels()) {
    if (!seen.insert(label.category_id()).second) continue;
    const Color color = ColorFromRgb24(label.color());
    ordered_json category{{"id", label.category_id()}, {"name", label.name()}};
    if (label.has_is_thing()) category["isthing"] = label.is_thing() ? 1 : 0;
    category["color"] = {color.red, color.green, color.blue};
    categories_.push_back(std::move(category));
  }
}

void CocoResults::AddPicture(const std::string& file_name, const SegmentResponse& response,
                             const ResultFiles& files) {
  if (images_.empty()) {
    info_["version"] = response.version();
    info_["task"] = TaskName(response.task());
  }
  const size_t image_id = images_.size() + 1;
  ordered_json image{{"id", image_id},
                     {"file_name", file_name},
                     {"width", response.width()},
                     {"height", response.height()}};
  if (!files.overlay.empty()) image["overlay"] = files.overlay;
  if (!files.id_map.empty()) {
    image["id_map"] = files.id_map;
    image["void_value"] = response.id_map().void_value();
  }
  images_.push_back(std::move(image));

  const auto mask_file = [&](int index) {
    return index < static_cast<int>(files.masks.size()) ? files.masks[index] : std::string();
  };
  if (response.task() == Task::TASK_PANOPTIC) {
    ordered_json annotation{{"image_id", image_id}};
    if (!files.id_map.empty()) annotation["file_name"] = files.id_map;
    annotation["segments_info"] = ordered_json::array();
    for (int i = 0; i < response.segments_size(); ++i) {
      ordered_json segment{{"id", response.segments(i).id()}};
      AddMeasures(response.segments(i), mask_file(i), segment);
      annotation["segments_info"].push_back(std::move(segment));
    }
    annotations_.push_back(std::move(annotation));
    return;
  }
  for (int i = 0; i < response.segments_size(); ++i) {
    ordered_json annotation{{"id", annotations_.size() + 1}, {"image_id", image_id}};
    AddMeasures(response.segments(i), mask_file(i), annotation);
    annotations_.push_back(std::move(annotation));
  }
}

void CocoResults::AddFailure(const std::string& file_name, const CallError& error) {
  ordered_json failure{{"file_name", file_name},
                       {"code", absl::StatusCodeToString(error.code)},
                       {"message", error.message}};
  if (!error.reason.empty()) failure["reason"] = error.reason;
  for (const CallError::FieldViolation& violation : error.field_violations) {
    failure["field_violations"].push_back(
        {{"field", violation.field}, {"description", violation.description}});
  }
  failures_.push_back(std::move(failure));
}

std::string CocoResults::ToJson() const {
  std::string text = "{\"info\": " + info_.dump();
  AppendList("images", images_, text);
  AppendList("annotations", annotations_, text);
  AppendList("categories", categories_, text);
  AppendList("failures", failures_, text);
  text += "\n}\n";
  return text;
}

}  // namespace deform::client
