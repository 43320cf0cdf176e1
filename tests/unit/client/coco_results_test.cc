#include "results/coco_results.h"

#include "gtest/gtest.h"

namespace deform::client {
namespace {

using nlohmann::json;
using segmentation::v1::GetModelResponse;
using segmentation::v1::Segment;
using segmentation::v1::SegmentResponse;

GetModelResponse Shapes() {
  GetModelResponse model;
  model.mutable_summary()->set_name("shapes");
  auto* disk = model.add_labels();
  disk->set_label_id(0);
  disk->set_category_id(1);
  disk->set_name("disk");
  disk->set_is_thing(true);
  disk->set_color(0xDC143C);
  auto* grass = model.add_labels();
  grass->set_label_id(13);
  grass->set_category_id(110);
  grass->set_name("grass");
  grass->set_is_thing(false);
  grass->set_color(0x6B8E23);
  return model;
}

SegmentResponse OneDisk(segmentation::v1::Task task) {
  SegmentResponse response;
  response.set_width(53);
  response.set_height(37);
  response.set_version(4);
  response.set_task(task);
  Segment& segment = *response.add_segments();
  segment.set_id(9);
  segment.set_label_id(0);
  segment.set_category_id(1);
  segment.set_label("disk");
  segment.set_is_thing(true);
  segment.set_score(0.97f);
  segment.mutable_box()->set_x(2.1f);
  segment.mutable_box()->set_y(3);
  segment.mutable_box()->set_width(10.25f);
  segment.mutable_box()->set_height(8);
  segment.set_area(77);
  segment.mutable_coco_rle()->add_size(37);
  segment.mutable_coco_rle()->add_size(53);
  segment.mutable_coco_rle()->set_counts("Wg]0\\`");
  return response;
}

TEST(CocoResults, WritesInstancesAsCocoDoes) {
  CocoResults results(Shapes());
  results.AddPicture("a.jpg", OneDisk(segmentation::v1::TASK_INSTANCE), {"a.overlay.png", "", {}});
  results.AddPicture("b.jpg", OneDisk(segmentation::v1::TASK_INSTANCE), {});
  const json document = json::parse(results.ToJson());
  EXPECT_EQ(document["info"],
            json::parse(R"({"model": "shapes", "version": 4, "task": "instance"})"));
  EXPECT_EQ(document["images"], json::parse(R"([
      {"id": 1, "file_name": "a.jpg", "width": 53, "height": 37, "overlay": "a.overlay.png"},
      {"id": 2, "file_name": "b.jpg", "width": 53, "height": 37}])"));
  EXPECT_EQ(document["annotations"][0], json::parse(R"(
      {"id": 1, "image_id": 1, "category_id": 1, "category_name": "disk", "isthing": 1,
       "score": 0.97, "bbox": [2.1, 3.0, 10.25, 8.0], "area": 77, "iscrowd": 0,
       "segmentation": {"size": [37, 53], "counts": "Wg]0\\`"}})"));
  EXPECT_EQ(document["annotations"][1]["id"], 2);
  EXPECT_EQ(document["annotations"][1]["image_id"], 2);
  EXPECT_EQ(document["categories"], json::parse(R"([
      {"id": 1, "name": "disk", "isthing": 1, "color": [220, 20, 60]},
      {"id": 110, "name": "grass", "isthing": 0, "color": [107, 142, 35]}])"));
  EXPECT_EQ(document["failures"], json::array());
}

TEST(CocoResults, WritesPanopticAnswersAsSegmentsInfo) {
  SegmentResponse response = OneDisk(segmentation::v1::TASK_PANOPTIC);
  response.mutable_segments(0)->clear_mask();
  response.mutable_id_map()->set_void_value(0);
  CocoResults results(Shapes());
  results.AddPicture("a.jpg", response, {"", "a.ids.png", {}});
  const json document = json::parse(results.ToJson());
  EXPECT_EQ(document["annotations"], json::parse(R"([
      {"image_id": 1, "file_name": "a.ids.png", "segments_info": [
        {"id": 9, "category_id": 1, "category_name": "disk", "isthing": 1, "score": 0.97,
         "bbox": [2.1, 3.0, 10.25, 8.0], "area": 77, "iscrowd": 0}]}])"));
  EXPECT_EQ(document["images"][0]["id_map"], "a.ids.png");
  EXPECT_EQ(document["images"][0]["void_value"], 0);
}

TEST(CocoResults, WritesAPictureWithoutSegments) {
  SegmentResponse response;
  response.set_width(37);
  response.set_height(53);
  response.set_task(segmentation::v1::TASK_INSTANCE);
  CocoResults results(Shapes());
  results.AddPicture("a.jpg", response, {});
  const json document = json::parse(results.ToJson());
  EXPECT_EQ(document["images"].size(), 1u);
  EXPECT_EQ(document["annotations"], json::array());
}

TEST(CocoResults, NamesTheFilesOfMasksThatCameAsPng) {
  SegmentResponse response = OneDisk(segmentation::v1::TASK_INSTANCE);
  response.mutable_segments(0)->set_png("…");
  CocoResults results(Shapes());
  results.AddPicture("a.jpg", response, {"", "", {"a.mask-9.png"}});
  const json document = json::parse(results.ToJson());
  EXPECT_EQ(document["annotations"][0]["mask_file"], "a.mask-9.png");
  EXPECT_FALSE(document["annotations"][0].contains("segmentation"));
}

TEST(CocoResults, WritesFailures) {
  CallError error;
  error.code = absl::StatusCode::kInvalidArgument;
  error.message = "damaged";
  error.reason = "DAMAGED_IMAGE";
  error.field_violations = {{"picture.encoded", "ends too early"}};
  CocoResults results(Shapes());
  results.AddFailure("bad\xff.jpg", error);  // a name that isn't UTF-8
  const json document = json::parse(results.ToJson());
  EXPECT_EQ(document["failures"], json::parse(R"([
      {"file_name": "bad�.jpg", "code": "INVALID_ARGUMENT", "message": "damaged",
       "reason": "DAMAGED_IMAGE",
       "field_violations": [{"field": "picture.encoded", "description": "ends too early"}]}])"));
}

}  // namespace
}  // namespace deform::client
