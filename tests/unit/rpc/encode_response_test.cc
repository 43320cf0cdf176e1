#include "rpc/encode_response.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "base/error.h"
#include "pipeline/picture.h"

namespace deform::rpc {
namespace {

namespace v1 = segmentation::v1;

// An answer with one segment: its mask is the one of COCO's own example of column-major order,
// [[0,1,1,0],[0,1,0,0],[1,1,0,0]].
class EncodeResponseTest : public ::testing::Test {
 protected:
  EncodeResponseTest() {
    auto model = std::make_shared<lifecycle::ServableModel>();
    model->name = "shapes";
    model->version = 3;
    model->manifest.labels = {
        {.id = 2, .category_id = 7, .name = "disk", .is_thing = true, .color = {}},
        {.id = 5, .category_id = 9, .name = "fog", .is_thing = {}, .color = {}}};
    answer_.model = model;
    answer_.options.task = engine::Task::kInstance;
    answer_.result.width = 4;
    answer_.result.height = 3;
    answer_.result.segments = {{.id = 1,
                                .label_id = 2,
                                .score = 0.75f,
                                .box = {0, 0, 3, 3},
                                .area = 5,
                                .mask = pipeline::Rle{3, 4, {2, 5, 5}}}};
    answer_.times.decode = std::chrono::milliseconds(1500);
    answer_.times.batch_size = 4;
  }

  absl::Status Encode(v1::MaskEncoding encoding = v1::MASK_ENCODING_UNSPECIFIED) {
    response_.Clear();
    return EncodeSegmentResponse(answer_, encoding, &clock_, &metrics_, response_);
  }

  base::ManualClock clock_;
  base::Metrics metrics_;
  serving::SegmentAnswer answer_;
  v1::SegmentResponse response_;
};

TEST_F(EncodeResponseTest, CarriesTheSegment) {
  ASSERT_TRUE(Encode().ok());
  EXPECT_EQ(response_.width(), 4u);
  EXPECT_EQ(response_.height(), 3u);
  EXPECT_EQ(response_.model(), "shapes");
  EXPECT_EQ(response_.version(), 3);
  EXPECT_EQ(response_.task(), v1::TASK_INSTANCE);
  ASSERT_EQ(response_.segments_size(), 1);
  const v1::Segment& segment = response_.segments(0);
  EXPECT_EQ(segment.id(), 1);
  EXPECT_EQ(segment.label_id(), 2);
  EXPECT_EQ(segment.category_id(), 7);
  EXPECT_EQ(segment.label(), "disk");
  EXPECT_TRUE(segment.has_is_thing() && segment.is_thing());
  EXPECT_EQ(segment.score(), 0.75f);
  EXPECT_EQ(segment.box().width(), 3);
  EXPECT_EQ(segment.area(), 5);
  EXPECT_EQ(response_.times().decode().seconds(), 1);
  EXPECT_EQ(response_.times().decode().nanos(), 500'000'000);
  EXPECT_EQ(response_.times().batch_size(), 4u);
}

TEST_F(EncodeResponseTest, WhetherAThingStaysUnsetWhereNotKnown) {
  answer_.result.segments[0].label_id = 5;
  ASSERT_TRUE(Encode().ok());
  EXPECT_EQ(response_.segments(0).label(), "fog");
  EXPECT_FALSE(response_.segments(0).has_is_thing());
}

TEST_F(EncodeResponseTest, MasksAreCocoRunLengthsUnlessAskedOtherwise) {
  ASSERT_TRUE(Encode().ok());
  const v1::CocoRle& rle = response_.segments(0).coco_rle();
  ASSERT_EQ(rle.size_size(), 2);
  EXPECT_EQ(rle.size(0), 3u);
  EXPECT_EQ(rle.size(1), 4u);
  EXPECT_EQ(rle.counts(), "255");
  EXPECT_EQ(response_.options().mask_encoding(), v1::MASK_ENCODING_COCO_RLE);
}

TEST_F(EncodeResponseTest, MasksAsPngAreThePicturesSize) {
  ASSERT_TRUE(Encode(v1::MASK_ENCODING_PNG).ok());
  ASSERT_TRUE(response_.segments(0).has_png());
  const auto mask = pipeline::DecodePicture(response_.segments(0).png(), {});
  ASSERT_TRUE(mask.ok()) << mask.status();
  ASSERT_EQ(mask->width, 4);
  ASSERT_EQ(mask->height, 3);
  const int rows[3][4] = {{0, 1, 1, 0}, {0, 1, 0, 0}, {1, 1, 0, 0}};
  for (int y = 0; y < 3; ++y) {
    for (int x = 0; x < 4; ++x) EXPECT_EQ(mask->rgb[3 * (4 * y + x)], 255 * rows[y][x]);
  }
  EXPECT_EQ(response_.options().mask_encoding(), v1::MASK_ENCODING_PNG);
}

TEST_F(EncodeResponseTest, NoMasksWhenNoneAreWanted) {
  ASSERT_TRUE(Encode(v1::MASK_ENCODING_NONE).ok());
  EXPECT_EQ(response_.segments(0).mask_case(), v1::Segment::MASK_NOT_SET);
  EXPECT_EQ(response_.options().mask_encoding(), v1::MASK_ENCODING_NONE);
}

TEST_F(EncodeResponseTest, TheIdMapIsAPng) {
  answer_.options.task = engine::Task::kPanoptic;
  answer_.result.id_map = pipeline::IdMap{2, 1, 0, {0, 200}};
  ASSERT_TRUE(Encode().ok());
  EXPECT_EQ(response_.id_map().void_value(), 0u);
  const auto map = pipeline::DecodePicture(response_.id_map().png(), {});
  ASSERT_TRUE(map.ok()) << map.status();
  ASSERT_EQ(map->width, 2);
  EXPECT_EQ(map->rgb[0], 0);
  EXPECT_EQ(map->rgb[3], 200);
}

TEST_F(EncodeResponseTest, AnAnswerWithNothingInItHasThePicturesSize) {
  answer_.result.segments.clear();
  ASSERT_TRUE(Encode().ok());
  EXPECT_EQ(response_.segments_size(), 0);
  EXPECT_EQ(response_.width(), 4u);
}

TEST_F(EncodeResponseTest, AnAnswerWithoutMasksRefusesTheirEncoding) {
  answer_.options.task = engine::Task::kDetection;
  answer_.result.segments[0].mask.reset();
  const absl::Status status = Encode(v1::MASK_ENCODING_PNG);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(base::GetErrorDetails(status)->field_violations[0].field, "options.mask_encoding");
  ASSERT_TRUE(Encode().ok());
  EXPECT_EQ(response_.options().mask_encoding(), v1::MASK_ENCODING_NONE);
}

TEST_F(EncodeResponseTest, TimesItself) {
  ASSERT_TRUE(Encode().ok());
  EXPECT_TRUE(response_.times().has_encode());
  int observed = 0;
  for (const auto& family : metrics_.registry().Collect()) {
    if (family.name != "deform_stage_duration_seconds") continue;
    for (const auto& metric : family.metric) observed += metric.histogram.sample_count;
  }
  EXPECT_EQ(observed, 1);
}

TEST(EncodeDurationTest, KeepsNanoseconds) {
  google::protobuf::Duration out;
  EncodeDuration(std::chrono::nanoseconds(3'000'000'007), &out);
  EXPECT_EQ(out.seconds(), 3);
  EXPECT_EQ(out.nanos(), 7);
}

}  // namespace
}  // namespace deform::rpc
