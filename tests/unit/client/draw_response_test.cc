#include "drawing/draw_response.h"

#include <vector>

#include "gtest/gtest.h"
#include "test_data.h"

namespace deform::client {
namespace {

using segmentation::v1::Segment;
using segmentation::v1::SegmentResponse;

constexpr int kFactor = 74;  // from 7×5 pixels up to 518×370

Canvas Plain(int width, int height) {
  return Canvas(width, height, std::vector<uint8_t>(width * height * 3, 100));
}

SegmentResponse Answer(segmentation::v1::Task task) {
  SegmentResponse response;
  response.set_width(7);
  response.set_height(5);
  response.set_task(task);
  return response;
}

// The middle of a pixel of the picture on the enlarged canvas.
Color At(const Canvas& canvas, int x, int y) {
  return canvas.At(x * kFactor + kFactor / 2, y * kFactor + kFactor / 2);
}

bool IsTinted(Color color) { return color != Color{100, 100, 100}; }

LabelColors Colors() {
  LabelColors colors;
  colors.Set(0, 0xFF0000);
  colors.Set(16, 0x0000FF);
  return colors;
}

TEST(DrawResponse, TakesPanopticMasksFromTheIdMapBySegmentId) {
  SegmentResponse response = Answer(segmentation::v1::TASK_PANOPTIC);
  response.mutable_id_map()->set_png(ReadTestData("ids_8_bit.png"));  // 7·y + x
  Segment& segment = *response.add_segments();
  segment.set_id(16);  // x 2, y 2
  segment.set_label_id(0);
  const auto drawn = DrawResponse(Plain(7, 5), response, Colors());
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_GT(At(*drawn, 2, 2).red, 140);
  EXPECT_FALSE(IsTinted(At(*drawn, 4, 2)));
  EXPECT_FALSE(IsTinted(At(*drawn, 2, 4)));
}

TEST(DrawResponse, TakesSemanticMasksFromTheIdMapByLabelId) {
  SegmentResponse response = Answer(segmentation::v1::TASK_SEMANTIC);
  response.mutable_id_map()->set_png(ReadTestData("ids_8_bit.png"));
  Segment& segment = *response.add_segments();
  segment.set_id(1);
  segment.set_label_id(16);
  const auto drawn = DrawResponse(Plain(7, 5), response, Colors());
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_GT(At(*drawn, 2, 2).blue, 140);
  EXPECT_FALSE(IsTinted(At(*drawn, 4, 2)));
}

TEST(DrawResponse, DrawsSmallSegmentsOverLargeOnes) {
  // The large one holds every pixel, the small one the first column.
  SegmentResponse response = Answer(segmentation::v1::TASK_INSTANCE);
  Segment& small = *response.add_segments();
  small.set_label_id(16);
  small.set_area(5);
  small.mutable_coco_rle()->set_counts("05n0");
  Segment& large = *response.add_segments();
  large.set_label_id(0);
  large.set_area(35);
  large.mutable_coco_rle()->set_counts("0S1");
  const auto drawn = DrawResponse(Plain(7, 5), response, Colors());
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  // Tint over tint: the last one counts most.
  EXPECT_GT(At(*drawn, 0, 4).blue, At(*drawn, 0, 4).red);
  EXPECT_GT(At(*drawn, 4, 4).red, At(*drawn, 4, 4).blue);
}

TEST(DrawResponse, ShadesInstancesOfOneLabelButNotGround) {
  const auto red_of = [](bool is_thing) {
    SegmentResponse response = Answer(segmentation::v1::TASK_INSTANCE);
    for (const char* counts : {"05n0", "n05"}) {  // the first and the last column
      Segment& segment = *response.add_segments();
      segment.set_label_id(0);
      segment.set_is_thing(is_thing);
      segment.set_area(5);
      segment.mutable_coco_rle()->set_counts(counts);
    }
    const auto drawn = DrawResponse(Plain(7, 5), response, Colors());
    EXPECT_TRUE(drawn.ok()) << drawn.status();
    return std::pair(At(*drawn, 0, 4), At(*drawn, 6, 4));
  };
  const auto [first_thing, second_thing] = red_of(true);
  EXPECT_TRUE(IsTinted(first_thing));
  EXPECT_NE(first_thing, second_thing);
  const auto [first_ground, second_ground] = red_of(false);
  EXPECT_TRUE(IsTinted(first_ground));
  EXPECT_EQ(first_ground, second_ground);
}

TEST(DrawResponse, RefusesAnAnswerThatDoesntFitThePicture) {
  SegmentResponse response = Answer(segmentation::v1::TASK_INSTANCE);
  EXPECT_FALSE(DrawResponse(Plain(5, 7), response, Colors()).ok());
  response.add_segments()->mutable_coco_rle()->set_counts("05");
  EXPECT_FALSE(DrawResponse(Plain(7, 5), response, Colors()).ok());
}

}  // namespace
}  // namespace deform::client
