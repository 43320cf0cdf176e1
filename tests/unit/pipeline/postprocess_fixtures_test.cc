// Against Hugging Face's post-processing, and against the default rules over whole arrays in
// float64 (tests/support/make_pipeline_fixtures.py).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {
namespace {

using engine::Compat;
using engine::Task;
using Json = nlohmann::json;

engine::PackageManifest Mask2FormerManifest(const Json& expected) {
  engine::PackageManifest manifest;
  manifest.architecture = engine::Architecture::kMask2Former;
  manifest.num_queries = expected.at("queries");
  manifest.num_classes = expected.at("classes");
  manifest.preprocess.height = expected.at("network")[0];
  manifest.preprocess.width = expected.at("network")[1];
  manifest.postprocess.fuse_label_ids = expected.at("fuse").get<std::vector<int32_t>>();
  for (const int32_t id : manifest.postprocess.fuse_label_ids) {
    engine::Label stuff;
    stuff.id = id;
    stuff.is_thing = false;
    manifest.labels.push_back(stuff);
  }
  return manifest;
}

// Decodes COCO's compressed counts, by its published format.
std::vector<uint8_t> DecodeString(const std::string& text, int height, int width) {
  Rle rle{height, width, {}};
  for (size_t at = 0; at < text.size();) {
    int64_t count = 0;
    int shift = 0;
    int digit = 0x20;
    while ((digit & 0x20) != 0) {
      digit = text.at(at++) - 48;
      count |= static_cast<int64_t>(digit & 0x1f) << shift;
      shift += 5;
      if ((digit & 0x20) == 0 && (digit & 0x10) != 0) count |= -(int64_t{1} << shift);
    }
    if (rle.counts.size() > 2) count += rle.counts[rle.counts.size() - 2];
    rle.counts.push_back(static_cast<uint32_t>(count));
  }
  return DecodeRle(rle);
}

double Iou(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  int64_t both = 0, either = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += a[i] & b[i];
    either += a[i] | b[i];
  }
  return static_cast<double>(both) / static_cast<double>(either);
}

struct Comparison {
  Task task;
  std::string name;  // key of the fixture
  bool has_ids;
};

const Comparison kComparisons[] = {{Task::kInstance, "instance", false},
                                   {Task::kPanoptic, "panoptic", true},
                                   {Task::kSemantic, "semantic", false}};

void ExpectSame(const Json& expected, const SegmentationResult& ours, const Comparison& comparison,
                bool has_scores, double least_iou) {
  ASSERT_EQ(ours.segments.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Segment& segment = ours.segments[i];
    EXPECT_EQ(segment.label_id, expected[i].at("label_id")) << i;
    if (has_scores) {
      EXPECT_NEAR(segment.score, expected[i].at("score"), 1e-5) << i;
    }
    if (comparison.has_ids) {
      EXPECT_EQ(segment.id, expected[i].at("id")) << i;
    }
    ASSERT_TRUE(segment.mask.has_value());
    const std::vector<uint8_t> theirs =
        DecodeString(expected[i].at("mask"), ours.height, ours.width);
    const std::vector<uint8_t> mask = DecodeRle(*segment.mask);
    EXPECT_GE(Iou(mask, theirs), least_iou) << i;
    EXPECT_EQ(segment.area, std::count(mask.begin(), mask.end(), 1));
    if (comparison.task == Task::kInstance) continue;
    ASSERT_TRUE(ours.id_map.has_value());
    const int32_t value = comparison.task == Task::kSemantic ? segment.label_id : segment.id;
    for (size_t at = 0; at < mask.size(); ++at)
      ASSERT_EQ(ours.id_map->ids[at] == value, mask[at] == 1) << at;
  }
}

class Mask2FormerFixtureTest : public testing::TestWithParam<std::string> {
 protected:
  Mask2FormerFixtureTest()
      : fixture_(Json::parse(ReadTestFile("pipeline/mask2former_" + GetParam() + ".json"))),
        manifest_(Mask2FormerManifest(fixture_)),
        outputs_({ReadNpy("mask2former_" + GetParam() + ".classes.npy"),
                  ReadNpy("mask2former_" + GetParam() + ".masks.npy")}) {
    geometry_.height = fixture_.at("size")[0];
    geometry_.width = fixture_.at("size")[1];
    geometry_.content_height = fixture_.at("content")[0];
    geometry_.content_width = fixture_.at("content")[1];
  }

  SegmentationResult Answer(Task task, Compat compat) {
    PostprocessOptions options;
    options.task = task;
    options.compat = compat;
    options.score_threshold = fixture_.at("score_threshold");
    options.mask_threshold = fixture_.at("mask_threshold");
    options.overlap_mask_area_threshold = fixture_.at("overlap");
    auto result = Postprocess(manifest_, outputs_, geometry_, options);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  const Json fixture_;
  const engine::PackageManifest manifest_;
  const std::vector<engine::Tensor> outputs_;
  PictureGeometry geometry_;
};

TEST_P(Mask2FormerFixtureTest, CompatHfEqualsHuggingFace) {
  for (const Comparison& comparison : kComparisons) {
    SCOPED_TRACE(comparison.name);
    ExpectSame(fixture_.at("hf").at(comparison.name), Answer(comparison.task, Compat::kHuggingFace),
               comparison, comparison.task != Task::kSemantic, 1.0);
  }
}

TEST_P(Mask2FormerFixtureTest, DefaultFollowsItsRules) {
  for (const Comparison& comparison : kComparisons) {
    SCOPED_TRACE(comparison.name);
    ExpectSame(fixture_.at("default").at(comparison.name),
               Answer(comparison.task, Compat::kDefault), comparison, true, 0.999);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Mask2FormerFixtureTest,
                         testing::Values("upscaled", "downscaled", "fit"),
                         [](const auto& info) { return info.param; });

class DetectionFixtureTest : public testing::TestWithParam<std::string> {};

TEST_P(DetectionFixtureTest, CompatHfEqualsHuggingFace) {
  const Json fixture = Json::parse(ReadTestFile("pipeline/detr_" + GetParam() + ".json"));
  engine::PackageManifest manifest;
  manifest.architecture = engine::Architecture::kDeformableDetr;
  manifest.num_queries = fixture.at("queries");
  manifest.num_classes = fixture.at("classes");
  const std::vector<engine::Tensor> outputs = {ReadNpy("detr_" + GetParam() + ".logits.npy"),
                                               ReadNpy("detr_" + GetParam() + ".boxes.npy")};
  PictureGeometry geometry;
  geometry.height = fixture.at("size")[0];
  geometry.width = fixture.at("size")[1];
  PostprocessOptions options;
  options.task = Task::kDetection;
  options.compat = Compat::kHuggingFace;
  options.score_threshold = fixture.at("score_threshold");
  const auto ours = Postprocess(manifest, outputs, geometry, options);
  ASSERT_TRUE(ours.ok()) << ours.status();
  const Json& expected = fixture.at("hf");
  ASSERT_EQ(ours->segments.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const Segment& segment = ours->segments[i];
    EXPECT_EQ(segment.label_id, expected[i].at("label_id"));
    EXPECT_NEAR(segment.score, expected[i].at("score"), 1e-6);
    const Json& corners = expected[i].at("corners");
    EXPECT_NEAR(segment.box.x, corners[0], 1e-4);
    EXPECT_NEAR(segment.box.y, corners[1], 1e-4);
    EXPECT_NEAR(segment.box.x + segment.box.width, corners[2], 1e-4);
    EXPECT_NEAR(segment.box.y + segment.box.height, corners[3], 1e-4);
    EXPECT_FALSE(segment.mask.has_value());
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, DetectionFixtureTest, testing::Values("many", "few"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace deform::pipeline
