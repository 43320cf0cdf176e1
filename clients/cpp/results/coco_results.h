#pragma once

#include <string>
#include <vector>

#include "calls/call_error.h"
#include "deform/segmentation/v1/segmentation.pb.h"
#include "nlohmann/json.hpp"

namespace deform::client {

// The files written beside the JSON for one picture, as named in the JSON; empty: not written.
struct ResultFiles {
  std::string overlay;
  std::string id_map;
  std::vector<std::string> masks;  // one for each segment, in order; or none at all
};

// Gathers answers into one document in the style of COCO:
//   {"info": {"model", "version", "task"},
//    "images": [{"id", "file_name", "width", "height", "overlay", "id_map", "void_value"}],
//    "annotations": [{"id", "image_id", "category_id", "category_name", "score",
//                     "bbox": [x, y, width, height], "area", "iscrowd": 0,
//                     "segmentation": {"size": [height, width], "counts"}, "mask_file"}],
//    "categories": [{"id", "name", "isthing", "color": [r, g, b]}],
//    "failures": [{"file_name", "code", "message", "reason", "field_violations"}]}
// where annotations of panoptic answers are one for each picture, as COCO's panoptic format has it:
//   {"image_id", "file_name": the id map, "segments_info": [{"id", "category_id", …}]}
// Keys without a value are left out. pycocotools reads the list of annotations with loadRes.
// Pictures are numbered from 1 in the order in which they are added. Not thread-safe.
class CocoResults {
 public:
  explicit CocoResults(const segmentation::v1::GetModelResponse& model);

  void AddPicture(const std::string& file_name, const segmentation::v1::SegmentResponse& response,
                  const ResultFiles& files);
  void AddFailure(const std::string& file_name, const CallError& error);

  // The whole document, one annotation a line.
  std::string ToJson() const;

 private:
  nlohmann::ordered_json info_;
  std::vector<nlohmann::ordered_json> categories_;
  std::vector<nlohmann::ordered_json> images_;
  std::vector<nlohmann::ordered_json> annotations_;
  std::vector<nlohmann::ordered_json> failures_;
};

}  // namespace deform::client
