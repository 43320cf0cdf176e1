#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "pipeline/probabilities.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

struct Candidate {
  float score = 0;
  int query = 0;
  int label_id = 0;
};

std::vector<Candidate> LikeliestPairs(const DetectionOutputs& outputs,
                                      const AnswerContext& context) {
  std::vector<float> scores(
      outputs.logits,
      outputs.logits + static_cast<size_t>(outputs.queries) * static_cast<size_t>(outputs.classes));
  SigmoidInPlace(absl::MakeSpan(scores));
  std::vector<Candidate> pairs;
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto query = static_cast<int>(i / outputs.classes);
    const auto label_id = static_cast<int>(i % outputs.classes);
    if (scores[i] >= context.options.score_threshold && context.Keeps(label_id))
      pairs.push_back({scores[i], query, label_id});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  if (pairs.size() > static_cast<size_t>(context.options.max_results))
    pairs.resize(context.options.max_results);
  return pairs;
}

// Boxes are relative to the content where the network is told of the padding or there is none,
// else to all of its input.
Box ClippedBox(const float* box, const AnswerContext& context) {
  const engine::PreprocessSpec& spec = context.manifest.preprocess;
  const PictureGeometry& geometry = context.geometry;
  double scale_x = geometry.width, scale_y = geometry.height;
  if (!spec.pixel_mask) {
    scale_x *= static_cast<double>(spec.width) / geometry.content_width;
    scale_y *= static_cast<double>(spec.height) / geometry.content_height;
  }
  const double left = std::clamp<double>((box[0] - 0.5 * box[2]) * scale_x, 0, geometry.width);
  const double right = std::clamp<double>((box[0] + 0.5 * box[2]) * scale_x, 0, geometry.width);
  const double top = std::clamp<double>((box[1] - 0.5 * box[3]) * scale_y, 0, geometry.height);
  const double bottom = std::clamp<double>((box[1] + 0.5 * box[3]) * scale_y, 0, geometry.height);
  return {static_cast<float>(left), static_cast<float>(top), static_cast<float>(right - left),
          static_cast<float>(bottom - top)};
}

}  // namespace

SegmentationResult DetectionAnswer(const DetectionOutputs& outputs, const AnswerContext& context) {
  SegmentationResult result{.width = context.geometry.width,
                            .height = context.geometry.height,
                            .segments = {},
                            .id_map = {}};
  for (const Candidate& candidate : LikeliestPairs(outputs, context)) {
    const Box box = ClippedBox(outputs.boxes + size_t{4} * candidate.query, context);
    if (!(box.width > 0 && box.height > 0)) continue;  // outside of the picture, or not a number
    Segment segment;
    segment.id = static_cast<int32_t>(result.segments.size() + 1);
    segment.label_id = candidate.label_id;
    segment.score = candidate.score;
    segment.box = box;
    segment.area = std::llround(static_cast<double>(box.width) * box.height);
    result.segments.push_back(segment);
  }
  return result;
}

}  // namespace deform::pipeline
