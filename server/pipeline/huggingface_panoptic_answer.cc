#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "pipeline/huggingface_arithmetic.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

struct KeptQuery {
  int query = 0;
  int label_id = 0;
  float score = 0;
  int64_t won = 0;     // pixels where it beats all others
  int64_t inside = 0;  // pixels where score × mask probability reaches the mask threshold
};

std::vector<KeptQuery> KeepQueries(const Mask2FormerOutputs& outputs, float score_threshold) {
  const at::Tensor logits = at::from_blob(const_cast<float*>(outputs.class_logits),
                                          {outputs.queries, outputs.classes + 1});
  const auto [scores, labels] = at::max(at::softmax(logits, -1), -1);
  std::vector<KeptQuery> kept;
  for (int query = 0; query < outputs.queries; ++query) {
    const float score = scores.const_data_ptr<float>()[query];
    const auto label_id = static_cast<int>(labels.const_data_ptr<int64_t>()[query]);
    if (label_id != outputs.classes && score > score_threshold)
      kept.push_back({.query = query, .label_id = label_id, .score = score});
  }
  return kept;
}

// The kept query that wins each pixel of the picture, [height, width]. Fills the queries' counts.
std::vector<int32_t> Compete(const Mask2FormerOutputs& outputs, const AnswerContext& context,
                             std::vector<KeptQuery>& kept) {
  const PictureGeometry& geometry = context.geometry;
  const size_t pixels = static_cast<size_t>(geometry.width) * geometry.height;
  const float threshold = context.options.mask_threshold;
  std::vector<float> best(pixels, -1.0f);
  std::vector<int32_t> winners(pixels, 0);
  for (size_t k = 0; k < kept.size(); ++k) {
    // One query at a time: torch resizes each channel alone, so the values are those of all at
    // once.
    at::Tensor probabilities = at::sigmoid(at::upsample_bilinear2d(
        at::from_blob(const_cast<float*>(outputs.MaskLogits(kept[k].query)),
                      {1, 1, outputs.height, outputs.width}),
        {kHuggingFaceMaskSide, kHuggingFaceMaskSide}, /*align_corners=*/false));
    probabilities = at::upsample_bilinear2d(probabilities, {geometry.height, geometry.width},
                                            /*align_corners=*/false)
                        .contiguous();
    const float* row = probabilities.const_data_ptr<float>();
    const float score = kept[k].score;
    for (size_t i = 0; i < pixels; ++i) {
      const float value = score * row[i];
      kept[k].inside += value >= threshold ? 1 : 0;
      if (value > best[i]) {
        best[i] = value;
        winners[i] = static_cast<int32_t>(k);
      }
    }
  }
  for (const int32_t winner : winners) ++kept[winner].won;
  return winners;
}

bool IsSegment(const KeptQuery& query, double overlap_threshold) {
  if (query.won == 0 || query.inside == 0) return false;
  const float share = static_cast<float>(query.won) / static_cast<float>(query.inside);
  return share > overlap_threshold;
}

}  // namespace

SegmentationResult HuggingFacePanopticAnswer(const Mask2FormerOutputs& outputs,
                                             const AnswerContext& context) {
  const int width = context.geometry.width, height = context.geometry.height;
  SegmentationResult result{.width = width, .height = height, .segments = {}, .id_map = {}};
  std::vector<KeptQuery> kept = KeepQueries(outputs, context.options.score_threshold);
  std::vector<int32_t> ids(static_cast<size_t>(width) * height, kPanopticVoid);
  if (!kept.empty()) {
    const std::vector<int32_t> winners = Compete(outputs, context, kept);
    // Theirs to the letter: a fused segment sets the counter back to its id, so that what follows
    // may take ids that are in use.
    const double overlap = WrittenValue(context.options.overlap_mask_area_threshold);
    std::vector<int32_t> id_of_query(kept.size(), kPanopticVoid);
    std::map<int, int32_t> id_of_fused_label;
    int32_t current_id = 0;
    for (size_t k = 0; k < kept.size(); ++k) {
      const int label_id = kept[k].label_id;
      if (!IsSegment(kept[k], overlap)) continue;
      const auto fused = id_of_fused_label.find(label_id);
      current_id = fused != id_of_fused_label.end() ? fused->second : current_id + 1;
      id_of_query[k] = current_id;
      Segment segment;
      segment.id = current_id;
      segment.label_id = label_id;
      segment.score = RoundToSixDigits(kept[k].score);
      result.segments.push_back(segment);
      if (context.Fuses(label_id)) id_of_fused_label[label_id] = current_id;
    }
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = id_of_query[winners[i]];
  }

  std::map<int32_t, Rle> masks;  // by id; several entries may share one
  std::vector<int32_t> distinct;
  for (const Segment& segment : result.segments) {
    if (masks.try_emplace(segment.id).second) distinct.push_back(segment.id);
  }
  std::vector<Rle> encoded = EncodeRleOfValues(ids.data(), height, width, distinct);
  for (size_t i = 0; i < distinct.size(); ++i) masks[distinct[i]] = std::move(encoded[i]);
  for (Segment& segment : result.segments)
    segment = MakeMaskSegment(segment.id, segment.label_id, segment.score, masks[segment.id]);
  result.id_map = IdMap{width, height, kPanopticVoid, std::move(ids)};
  return result;
}

}  // namespace deform::pipeline
