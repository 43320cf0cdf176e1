// Small cases whose right answers can be told by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

#include "network.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {
namespace {

using engine::Compat;
using engine::Task;
using testing::ElementsAre;
using testing::IsEmpty;

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
  detector.geometry = Geometry(detector.manifest, 480, 640);
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
  detector.geometry = Geometry(detector.manifest, 160, 320);
  ASSERT_EQ(detector.geometry.content_height, 160);
  const auto first = [&] {
    return Answer(detector.manifest, detector.outputs, detector.geometry,
                  {.task = Task::kDetection})
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

TEST(DetectionTest, NotANumberIsAnInternalError) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const size_t output : {0, 1}) {
    Detector detector = ThreeBoxes(5);
    const std::vector<int64_t> shape = detector.outputs[output].shape();
    detector.outputs[output] =
        MakeTensor(shape, std::vector<float>(static_cast<size_t>(shape[0] * shape[1]), kNan));
    for (const Compat compat : {Compat::kDefault, Compat::kHuggingFace}) {
      EXPECT_EQ(Postprocess(detector.manifest, detector.outputs, detector.geometry,
                            {.task = Task::kDetection, .compat = compat})
                    .status()
                    .code(),
                absl::StatusCode::kInternal);
    }
  }
}

}  // namespace
}  // namespace deform::pipeline
