// Small cases whose right answers can be told by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "fixtures.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {
namespace {

using engine::Compat;
using engine::Task;

// Class probabilities and mask probabilities as a network's logits: log(p) and log(q / (1 - q)).
struct Network {
  int height = 96, width = 96;  // of the mask logits
  std::vector<std::vector<float>> classes;                // [query][class, "no object" last]
  std::vector<std::function<float(int y, int x)>> masks;  // by query

  std::vector<engine::Tensor> Outputs() const {
    std::vector<float> class_logits, mask_logits;
    for (const auto& query : classes) {
      for (const float p : query) class_logits.push_back(std::log(p));
    }
    for (const auto& mask : masks) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const float q = mask(y, x);
          mask_logits.push_back(std::log(q / (1 - q)));
        }
      }
    }
    const auto queries = static_cast<int64_t>(classes.size());
    return {MakeTensor({queries, static_cast<int64_t>(classes[0].size())}, class_logits),
            MakeTensor({queries, height, width}, mask_logits)};
  }

  engine::PackageManifest Manifest(int network_height, int network_width) const {
    engine::PackageManifest manifest;
    manifest.architecture = engine::Architecture::kMask2Former;
    manifest.num_queries = static_cast<int>(classes.size());
    manifest.num_classes = static_cast<int>(classes[0].size()) - 1;
    manifest.preprocess.height = network_height;
    manifest.preprocess.width = network_width;
    return manifest;
  }
};

std::function<float(int, int)> LeftHalf(float inside, float outside, int width = 96) {
  return [=](int, int x) { return x < width / 2 ? inside : outside; };
}

std::function<float(int, int)> Quadrant(int row, int column) {
  return [=](int y, int x) { return y / 48 == row && x / 48 == column ? .97f : .02f; };
}

PictureGeometry Exact(const engine::PackageManifest& manifest, int height, int width) {
  return ComputeGeometry(width, height, manifest.preprocess);
}

SegmentationResult Answer(const engine::PackageManifest& manifest,
                          const std::vector<engine::Tensor>& outputs,
                          const PictureGeometry& geometry, const PostprocessOptions& options) {
  auto result = Postprocess(manifest, outputs, geometry, options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->height, geometry.height);
  EXPECT_EQ(result->width, geometry.width);
  return *std::move(result);
}

std::vector<int32_t> Ids(const SegmentationResult& result) {
  std::vector<int32_t> ids;
  for (const Segment& segment : result.segments) ids.push_back(segment.id);
  return ids;
}

std::vector<int32_t> LabelIds(const SegmentationResult& result) {
  std::vector<int32_t> label_ids;
  for (const Segment& segment : result.segments) label_ids.push_back(segment.label_id);
  return label_ids;
}

std::vector<int64_t> Areas(const SegmentationResult& result) {
  std::vector<int64_t> areas;
  for (const Segment& segment : result.segments) areas.push_back(segment.area);
  return areas;
}

using testing::ElementsAre;
using testing::IsEmpty;

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
  const SegmentationResult result = Answer(manifest, network.Outputs(), Exact(manifest, 96, 96),
                                           {.task = Task::kPanoptic});
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
      Answer(manifest, network.Outputs(), Exact(manifest, 96, 96),
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
  const PictureGeometry geometry = Exact(manifest, 96, 96);
  PostprocessOptions options{.task = Task::kPanoptic};
  const SegmentationResult ours = Answer(manifest, network.Outputs(), geometry, options);
  EXPECT_THAT(Areas(ours), ElementsAre(4608));
  EXPECT_EQ(std::count(ours.id_map->ids.begin(), ours.id_map->ids.end(), 0), 4608);
  options.compat = Compat::kHuggingFace;
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), geometry, options)), ElementsAre(9216));
}

TEST(PanopticTest, AQueryThatKeepsLittleOfItsMaskIsDropped) {
  Network network;
  network.classes = {{.95f, .03f, .02f}, {.03f, .8f, .17f}};
  // The second reaches over the picture, but wins its right quarter alone.
  network.masks = {[](int, int x) { return x < 72 ? .95f : .02f; },
                   [](int, int) { return .9f; }};
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  PostprocessOptions options{.task = Task::kPanoptic, .overlap_mask_area_threshold = .3f};
  EXPECT_THAT(LabelIds(Answer(manifest, network.Outputs(), Exact(manifest, 96, 96), options)),
              ElementsAre(0));
  options.overlap_mask_area_threshold = .2f;
  EXPECT_THAT(LabelIds(Answer(manifest, network.Outputs(), Exact(manifest, 96, 96), options)),
              ElementsAre(0, 1));
}

TEST(PanopticTest, CompatHfComparesShareWithTheThresholdAsItIsWritten) {
  // 4 of 5 columns won: Hugging Face's float32 share of .8 is above the double .8.
  Network network;
  network.height = 20;
  network.width = 20;
  network.classes = {{.98f, .01f, .01f}, {.01f, .9f, .09f}};
  network.masks = {[](int, int x) { return x < 4 ? .99f : .01f; },
                   [](int, int) { return .9f; }};
  const engine::PackageManifest manifest = network.Manifest(384, 384);
  const PostprocessOptions options{.task = Task::kPanoptic,
                                   .compat = Compat::kHuggingFace,
                                   .overlap_mask_area_threshold = .8f};
  EXPECT_THAT(Areas(Answer(manifest, network.Outputs(), Exact(manifest, 20, 20), options)),
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
        Answer(manifest, network.Outputs(), Exact(manifest, 96, 96), options);
    ASSERT_THAT(LabelIds(result), ElementsAre(0, 1));
    EXPECT_NEAR(result.segments[0].score, .448939, 2e-6);
    EXPECT_NEAR(result.segments[1].score, .404045, 2e-6);
    EXPECT_THAT(Ids(result), ElementsAre(1, 2));
    EXPECT_THAT(Areas(result), ElementsAre(4608, 4608));
    EXPECT_FALSE(result.id_map.has_value());
    options.score_threshold = .5f;
    EXPECT_THAT(Answer(manifest, network.Outputs(), Exact(manifest, 96, 96), options).segments,
                IsEmpty());
  }
}

TEST(InstanceTest, KeepsAskedLabelsAndAsManyAsAsked) {
  const Network network = TwoQueries();
  engine::PackageManifest manifest = network.Manifest(96, 96);
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    PostprocessOptions options{.compat = compat, .score_threshold = .1f, .label_ids = {1}};
    const auto labels = [&] {
      return LabelIds(Answer(manifest, network.Outputs(), Exact(manifest, 96, 96), options));
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
  EXPECT_THAT(LabelIds(Answer(manifest, network.Outputs(), Exact(manifest, 96, 96),
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
        Answer(manifest, network.Outputs(), Exact(manifest, 96, 96),
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
  const PictureGeometry geometry = Exact(manifest, 200, 100);
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
    const SegmentationResult result = Answer(manifest, network.Outputs(), Exact(manifest, 36, 60),
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
        Answer(manifest, network.Outputs(), Exact(manifest, 37, 53),
               {.task = Task::kPanoptic, .compat = compat});
    EXPECT_THAT(panoptic.segments, IsEmpty());
    EXPECT_EQ(panoptic.id_map->width, 53);
    EXPECT_EQ(panoptic.id_map->height, 37);
    EXPECT_EQ(panoptic.id_map->ids, std::vector<int32_t>(37 * 53, 0));
    const SegmentationResult instance = Answer(manifest, network.Outputs(),
                                               Exact(manifest, 37, 53), {.compat = compat});
    EXPECT_THAT(instance.segments, IsEmpty());
    EXPECT_FALSE(instance.id_map.has_value());
  }
}

struct Detector {
  engine::PackageManifest manifest;
  std::vector<engine::Tensor> outputs;
  PictureGeometry geometry;
};

// Three queries on 480 × 640, every logit -8 but four.
Detector ThreeBoxes(int classes) {
  Detector detector;
  detector.manifest.architecture = engine::Architecture::kDeformableDetr;
  detector.manifest.num_queries = 3;
  detector.manifest.num_classes = classes;
  detector.manifest.preprocess.height = 320;
  detector.manifest.preprocess.width = 320;
  std::vector<float> logits(3 * classes, -8);
  logits[0 * classes + 1] = 2.0f;
  logits[0 * classes + 2] = 1.5f;
  logits[1 * classes + 3] = 0.0f;
  logits[2 * classes + 0] = -.1f;
  detector.outputs = {
      MakeTensor({3, classes}, logits),
      MakeTensor({3, 4}, {.5f, .5f, .4f, .2f, .02f, .5f, .2f, .2f, .5f, .5f, .1f, .1f})};
  detector.geometry = Exact(detector.manifest, 480, 640);
  return detector;
}

TEST(DetectionTest, ScoresPairsOfQueryAndClass) {
  const Detector detector = ThreeBoxes(5);
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    const SegmentationResult result =
        Answer(detector.manifest, detector.outputs, detector.geometry,
               {.task = Task::kDetection, .compat = compat, .score_threshold = .45f});
    ASSERT_THAT(LabelIds(result), ElementsAre(1, 2, 3, 0));
    EXPECT_THAT(Ids(result), ElementsAre(1, 2, 3, 4));
    const std::vector<double> scores = {.880797, .817574, .5, .475021};
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(result.segments[i].score, scores[i], 1e-6);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(result.segments[i].box.x, 192, 1e-3);
      EXPECT_NEAR(result.segments[i].box.y, 192, 1e-3);
      EXPECT_NEAR(result.segments[i].box.width, 448 - 192, 1e-3);
      EXPECT_NEAR(result.segments[i].box.height, 288 - 192, 1e-3);
      EXPECT_EQ(result.segments[i].area, 256 * 96);
    }
    const Box& clipped = result.segments[2].box;
    const bool clips = compat == Compat::kDefault;
    EXPECT_NEAR(clipped.x, clips ? 0 : -51.2, 1e-3);
    EXPECT_NEAR(clipped.x + clipped.width, 76.8, 1e-3);
  }
}

TEST(DetectionTest, LabelGapsShiftNothing) {
  // A head of 91 classes of which 12, 26 and others mean nothing.
  Detector detector = ThreeBoxes(91);
  for (const int32_t id : {1, 2, 3, 90}) {
    engine::Label label;
    label.id = id;
    label.category_id = id;
    detector.manifest.labels.push_back(label);
  }
  const SegmentationResult result = Answer(detector.manifest, detector.outputs, detector.geometry,
                                           {.task = Task::kDetection, .score_threshold = .45f});
  EXPECT_THAT(LabelIds(result), ElementsAre(1, 2, 3, 0));
}

TEST(DetectionTest, KeepsAskedLabelsAndAsManyAsAsked) {
  const Detector detector = ThreeBoxes(5);
  const auto labels = [&](std::vector<int32_t> asked, int most, Compat compat) {
    return LabelIds(Answer(detector.manifest, detector.outputs, detector.geometry,
                           {.task = Task::kDetection,
                            .compat = compat,
                            .score_threshold = .45f,
                            .max_results = most,
                            .label_ids = std::move(asked)}));
  };
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    EXPECT_THAT(labels({2, 0}, 100, compat), ElementsAre(2, 0));
    EXPECT_THAT(labels({}, 2, compat), ElementsAre(1, 2));
  }
  // By default the filter comes first, there it comes last.
  EXPECT_THAT(labels({0}, 2, Compat::kDefault), ElementsAre(0));
  EXPECT_THAT(labels({0}, 2, Compat::kHuggingFace), IsEmpty());
}

TEST(DetectionTest, PaddingThatTheNetworkIsNotToldOfIsTakenOut) {
  Detector detector = ThreeBoxes(5);
  detector.manifest.preprocess.mode = engine::PreprocessSpec::Mode::kFit;
  detector.geometry = Exact(detector.manifest, 160, 320);
  ASSERT_EQ(detector.geometry.content_height, 160);
  const auto first = [&] {
    return Answer(detector.manifest, detector.outputs, detector.geometry, {.task = Task::kDetection})
        .segments.at(0)
        .box;
  };
  // .4 to .6 of the network's 320 rows, of which the picture has the upper 160.
  EXPECT_NEAR(first().y, 128, 1e-3);
  EXPECT_NEAR(first().height, 32, 1e-3);  // clipped at 160
  detector.manifest.preprocess.pixel_mask = true;
  EXPECT_NEAR(first().y, 64, 1e-3);
  EXPECT_NEAR(first().height, 32, 1e-3);
}

TEST(BrokenNetworkTest, NotANumberIsNeverFound) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  Detector detector = ThreeBoxes(5);
  detector.outputs[0] = MakeTensor({3, 5}, std::vector<float>(15, kNan));
  const Network network = TwoQueries();
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  const std::vector<engine::Tensor> outputs = {
      MakeTensor({2, 3}, std::vector<float>(6, kNan)),
      MakeTensor({2, 96, 96}, std::vector<float>(2 * 96 * 96, kNan))};
  for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
    EXPECT_THAT(Answer(detector.manifest, detector.outputs, detector.geometry,
                       {.task = Task::kDetection, .compat = compat})
                    .segments,
                IsEmpty());
    for (const Task task : {Task::kInstance, Task::kPanoptic}) {
      EXPECT_THAT(Answer(manifest, outputs, Exact(manifest, 37, 53),
                         {.task = task, .compat = compat})
                      .segments,
                  IsEmpty());
    }
    (void)Answer(manifest, outputs, Exact(manifest, 37, 53),
                 {.task = Task::kSemantic, .compat = compat});
  }
}

TEST(BrokenNetworkTest, OutputsOfOtherShapesAreAnInternalError) {
  const Network network = TwoQueries();
  const engine::PackageManifest manifest = network.Manifest(96, 96);
  const std::vector<engine::Tensor> good = network.Outputs();
  const PictureGeometry geometry = Exact(manifest, 96, 96);
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
