// Small cases whose right answers can be told by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "network.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {
namespace {

using engine::Compat;
using engine::Task;
using testing::ElementsAre;
using testing::IsEmpty;

std::function<float(int, int)> LeftHalf(float inside, float outside, int width = 96) {
  return [=](int, int x) { return x < width / 2 ? inside : outside; };
}

std::function<float(int, int)> Quadrant(int row, int column) {
  return [=](int y, int x) { return y / 48 == row && x / 48 == column ? .97f : .02f; };
}

// Stuff, thing, stuff, thing in four quadrants.
Network FourQuadrants() {
  Network network;
  network.classes = {{.05f, .9f, .05f}, {.9f, .05f, .05f}, {.04f, .92f, .04f}, {.88f, .06f, .06f}};
  network.masks = {Quadrant(0, 0), Quadrant(0, 1), Quadrant(1, 0), Quadrant(1, 1)};
  return network;
}

TEST(PanopticTest, FusedStuffIsOneSegmentAndIdsAreDistinct) {
  const Network network = FourQuadrants();
  engine::PackageManifest manifest = network.Manifest(96, 96);
  manifest.postprocess.fuse_label_ids = {1};
  const SegmentationResult result =
      Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96), {.task = Task::kPanoptic});
  EXPECT_THAT(Ids(result), ElementsAre(1, 2, 3));
  EXPECT_THAT(LabelIds(result), ElementsAre(1, 0, 0));
  EXPECT_THAT(Areas(result), ElementsAre(4608, 2304, 2304));
  EXPECT_NEAR(result.segments[0].score, .92, 1e-6);
  EXPECT_NEAR(result.segments[1].score, .9, 1e-6);
  EXPECT_NEAR(result.segments[2].score, .88, 1e-6);
  const Box& box = result.segments[2].box;
  EXPECT_THAT((std::vector<float>{box.x, box.y, box.width, box.height}),
              ElementsAre(48, 48, 48, 48));
  ASSERT_TRUE(result.id_map.has_value());
  EXPECT_EQ(result.id_map->void_value, 0);
  const auto id_at = [&](int y, int x) { return result.id_map->ids[y * 96 + x]; };
  EXPECT_THAT((std::vector<int32_t>{id_at(0, 0), id_at(0, 95), id_at(95, 0), id_at(95, 95)}),
              ElementsAre(1, 2, 1, 3));
}

TEST(PanopticTest, CompatHfRepeatsCollidingIds) {
  const Network network = FourQuadrants();
  engine::PackageManifest manifest = network.Manifest(96, 96);
  manifest.postprocess.fuse_label_ids = {1};
  const SegmentationResult result =
      Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96),
             {.task = Task::kPanoptic, .compat = Compat::kHuggingFace});
  EXPECT_THAT(Ids(result), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(LabelIds(result), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(Areas(result), ElementsAre(4608, 4608, 4608, 4608));
}

TEST(PanopticTest, ALoneQueryKeepsToItsMask) {
  Network network;
  network.classes = {{.9f, .05f, .05f}};
  network.masks = {LeftHalf(.9f, .01f)};
  const engine::PackageManifest manifest = network.Manifest(384, 384);
  const PictureGeometry geometry = Geometry(manifest, 96, 96);
  PostprocessOptions options{.task = Task::kPanoptic};
  const SegmentationResult ours = Answer(manifest, network.Outputs(), geometry, options);
  EXPECT_THAT(Areas(ours), ElementsAre(4608));
  EXPECT_EQ(std::count(ours.id_map->ids.begin(), ours.id_map->ids.end(), 0), 4608);
  options.compat = Compat::kHuggingFace;
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), geometry, options)), ElementsAre(9216));
}

TEST(PanopticTest, CompatHfWeighsMasksByTheScoreBeforeTheThreshold) {
  Network network;
  network.classes = {{.6f, .2f, .2f}};
  network.masks = {LeftHalf(.7f, .01f)};  // .6 · .7 is below .5
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  PostprocessOptions options{.task = Task::kPanoptic};
  const PictureGeometry geometry = Geometry(manifest, 96, 96);
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), geometry, options)), ElementsAre(4608));
  options.compat = Compat::kHuggingFace;
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), geometry, options)), IsEmpty());
}

TEST(PanopticTest, AQueryThatKeepsLittleOfItsMaskIsDropped) {
  Network network;
  network.classes = {{.95f, .03f, .02f}, {.03f, .8f, .17f}};
  // The second reaches over the picture, but wins its right quarter alone.
  network.masks = {[](int, int x) { return x < 72 ? .95f : .02f; }, [](int, int) { return .9f; }};
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  PostprocessOptions options{.task = Task::kPanoptic, .overlap_mask_area_threshold = .3f};
  EXPECT_THAT(LabelIds(Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96), options)),
              ElementsAre(0));
  options.overlap_mask_area_threshold = .2f;
  EXPECT_THAT(LabelIds(Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96), options)),
              ElementsAre(0, 1));
}

TEST(PanopticTest, CompatHfComparesShareWithTheThresholdAsItIsWritten) {
  // 4 of 5 columns won: Hugging Face's float32 share of .8 is above the double .8.
  Network network;
  network.height = 20;
  network.width = 20;
  network.classes = {{.98f, .01f, .01f}, {.01f, .9f, .09f}};
  network.masks = {[](int, int x) { return x < 4 ? .99f : .01f; }, [](int, int) { return .9f; }};
  const engine::PackageManifest manifest = network.Manifest(384, 384);
  const PostprocessOptions options{
      .task = Task::kPanoptic, .compat = Compat::kHuggingFace, .overlap_mask_area_threshold = .8f};
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), Geometry(manifest, 20, 20), options)),
              ElementsAre(80, 320));
}

Network TwoQueries() {
  Network network;
  network.classes = {{.50f, .45f, .05f}, {.30f, .02f, .68f}};
  network.masks = {LeftHalf(.9f, .05f), LeftHalf(.8f, .05f)};
  return network;
}

TEST(InstanceTest, AQueryMayAnswerWithSeveralClasses) {
  const Network network = TwoQueries();
  const engine::PackageManifest manifest = network.Manifest(384, 384);
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    PostprocessOptions options{.compat = compat, .score_threshold = .4f};
    const SegmentationResult result =
        Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96), options);
    ASSERT_THAT(LabelIds(result), ElementsAre(0, 1));
    EXPECT_NEAR(result.segments[0].score, .448939, 2e-6);
    EXPECT_NEAR(result.segments[1].score, .404045, 2e-6);
    EXPECT_THAT(Ids(result), ElementsAre(1, 2));
    EXPECT_THAT(Areas(result), ElementsAre(4608, 4608));
    EXPECT_FALSE(result.id_map.has_value());
    options.score_threshold = .5f;
    EXPECT_THAT(Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96), options).segments,
                IsEmpty());
  }
}

TEST(InstanceTest, KeepsAskedLabelsAndAsManyAsAsked) {
  const Network network = TwoQueries();
  engine::PackageManifest manifest = network.Manifest(96, 96);
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    PostprocessOptions options{.compat = compat, .score_threshold = .1f, .label_ids = {1}};
    const auto labels = [&] {
      return LabelIds(Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96), options));
    };
    EXPECT_THAT(labels(), ElementsAre(1));
    options.label_ids = {};
    options.max_results = 1;
    EXPECT_THAT(labels(), ElementsAre(0));
  }
}

TEST(InstanceTest, StuffIsNoInstance) {
  const Network network = TwoQueries();
  engine::PackageManifest manifest = network.Manifest(96, 96);
  engine::Label stuff;
  stuff.id = 0;
  stuff.is_thing = false;
  manifest.labels = {stuff};
  EXPECT_THAT(LabelIds(Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96),
                              {.score_threshold = .1f})),
              ElementsAre(1));
}

TEST(InstanceTest, MaskThresholdMovesTheBorder) {
  Network network;
  network.classes = {{.9f, .1f}};
  network.masks = {[](int, int x) { return (static_cast<float>(x) + .5f) / 96; }};
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  for (const float threshold : {.25f, .5f, .75f}) {
    const SegmentationResult result =
        Answer(manifest, network.Outputs(), Geometry(manifest, 96, 96),
               {.score_threshold = .1f, .mask_threshold = threshold});
    EXPECT_THAT(Areas(result), ElementsAre(static_cast<int64_t>(96 * (1 - threshold) * 96)));
  }
}

TEST(InstanceTest, FitLeavesThePaddingOut) {
  Network network;
  network.classes = {{.9f, .1f}};
  // In the right quarter of the network's input, of which the left half alone is picture.
  network.masks = {[](int, int x) { return x >= 72 ? .9f : .1f; }};
  engine::PackageManifest manifest = network.Manifest(96, 96);
  manifest.preprocess.mode = engine::PreprocessSpec::Mode::kFit;
  const PictureGeometry geometry = Geometry(manifest, 200, 100);
  ASSERT_EQ(geometry.content_width, 48);
  EXPECT_THAT(Answer(manifest, network.Outputs(), geometry, {}).segments, IsEmpty());
  network.masks = {[](int, int x) { return x >= 24 ? .9f : .1f; }};
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), geometry, {})), ElementsAre(200 * 50));
}

TEST(SemanticTest, EveryPixelGetsALabelThoughNoObjectIsLikelier) {
  Network network;
  network.height = 12;
  network.width = 20;
  network.classes = {{.20f, .10f, .70f}, {.05f, .20f, .75f}};
  network.masks = {LeftHalf(.9f, .05f, 20), LeftHalf(.05f, .9f, 20)};
  const engine::PackageManifest manifest = network.Manifest(384, 384);
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    const SegmentationResult result =
        Answer(manifest, network.Outputs(), Geometry(manifest, 36, 60),
               {.task = Task::kSemantic, .compat = compat});
    EXPECT_THAT(LabelIds(result), ElementsAre(0, 1));
    EXPECT_THAT(Ids(result), ElementsAre(1, 2));
    EXPECT_THAT(Areas(result), ElementsAre(36 * 30, 36 * 30));
    EXPECT_EQ(result.id_map->void_value, 65535);
    EXPECT_EQ(result.id_map->ids[0], 0);
    EXPECT_EQ(result.id_map->ids[59], 1);
    // .2 · .9 + .05 · .05 at the edge, less at the border between the two.
    EXPECT_NEAR(result.segments[0].score, .1825, .01);
  }
}

TEST(NothingFoundTest, IsAnAnswerOfThePicturesSize) {
  Network network;
  network.classes = {{.1f, .2f, .7f}, {.2f, .1f, .7f}};
  network.masks = {LeftHalf(.9f, .05f), LeftHalf(.05f, .9f)};
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    const SegmentationResult panoptic =
        Answer(manifest, network.Outputs(), Geometry(manifest, 37, 53),
               {.task = Task::kPanoptic, .compat = compat});
    EXPECT_THAT(panoptic.segments, IsEmpty());
    EXPECT_EQ(panoptic.id_map->width, 53);
    EXPECT_EQ(panoptic.id_map->height, 37);
    EXPECT_EQ(panoptic.id_map->ids, std::vector<int32_t>(37 * 53, 0));
    const SegmentationResult instance =
        Answer(manifest, network.Outputs(), Geometry(manifest, 37, 53), {.compat = compat});
    EXPECT_THAT(instance.segments, IsEmpty());
    EXPECT_FALSE(instance.id_map.has_value());
  }
}

TEST(BrokenNetworkTest, NotANumberIsAnInternalErrorInEveryTask) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Network network = TwoQueries();
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  const std::vector<engine::Tensor> good = network.Outputs();
  std::vector<float> masks(2 * 96 * 96, 0.f);
  masks.back() = kNan;
  const std::vector<engine::Tensor> bad_class = {
      MakeTensor({2, 3}, {1.f, 2.f, 3.f, 1.f, kNan, 0.f}), good[1]};
  const std::vector<engine::Tensor> bad_mask = {good[0], MakeTensor({2, 96, 96}, masks)};
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    for (const Task task : {Task::kInstance, Task::kSemantic, Task::kPanoptic}) {
      for (const auto& outputs : {bad_class, bad_mask}) {
        const absl::Status status = Postprocess(manifest, outputs, Geometry(manifest, 37, 53),
                                                {.task = task, .compat = compat})
                                        .status();
        EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
        EXPECT_EQ(status.message(), "the network's outputs hold NaN");
      }
    }
  }
}

TEST(BrokenNetworkTest, OutputsOfOtherShapesAreAnInternalError) {
  const Network network = TwoQueries();
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  const std::vector<engine::Tensor> good = network.Outputs();
  const PictureGeometry geometry = Geometry(manifest, 96, 96);
  const auto code = [&](const std::vector<engine::Tensor>& outputs) {
    return Postprocess(manifest, outputs, geometry, {}).status().code();
  };
  EXPECT_EQ(code(good), absl::StatusCode::kOk);
  EXPECT_EQ(code({good[0]}), absl::StatusCode::kInternal);
  EXPECT_EQ(code({good[1], good[0]}), absl::StatusCode::kInternal);
  EXPECT_EQ(code({good[0].Rows(0, 1), good[1]}), absl::StatusCode::kInternal);
  EXPECT_EQ(code({good[0], good[1].Rows(0, 1)}), absl::StatusCode::kInternal);
  EXPECT_EQ(code({good[0], engine::Tensor::Allocate(engine::DType::kFloat64, {2, 96, 96})}),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace deform::pipeline
