#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "pipeline/mask_upsampling.h"
#include "pipeline/probabilities.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

// A query that says what it sees, and how much of the picture is its own.
struct KeptQuery {
  int query = 0;
  int label_id = 0;
  float score = 0;
  int64_t won = 0;         // pixels where score × mask probability beats all others
  int64_t won_inside = 0;  // … and the mask probability reaches the threshold
  int64_t inside = 0;      // pixels where the mask probability reaches the threshold
  int32_t segment_id = kPanopticVoid;
};

std::vector<KeptQuery> KeepQueries(const Mask2FormerOutputs& outputs,
                                   const AnswerContext& context) {
  const std::vector<float> probabilities =
      Softmax(outputs.class_logits, outputs.queries, outputs.classes + 1);
  std::vector<KeptQuery> kept;
  for (int query = 0; query < outputs.queries; ++query) {
    const float* row = &probabilities[static_cast<size_t>(query) * (outputs.classes + 1)];
    const auto label_id = static_cast<int>(std::max_element(row, row + outputs.classes + 1) - row);
    if (label_id == outputs.classes || !(row[label_id] >= context.options.score_threshold))
      continue;
    kept.push_back({.query = query, .label_id = label_id, .score = row[label_id]});
  }
  return kept;
}

// For each pixel of the picture the index of the kept query that wins it, or -1 where the winner's
// mask doesn't reach the threshold. Fills the queries' counts. REQUIRES: kept is not empty.
std::vector<int32_t> Compete(const Mask2FormerOutputs& outputs, const AnswerContext& context,
                             std::vector<KeptQuery>& kept) {
  const MaskGrid grid =
      MakeMaskGrid(outputs.width, outputs.height, context.manifest.preprocess, context.geometry);
  std::vector<MaskRows> rows;
  rows.reserve(kept.size());
  for (const KeptQuery& query : kept) rows.emplace_back(outputs.MaskLogits(query.query), &grid);

  const auto width = static_cast<size_t>(grid.width);
  const float threshold = context.options.mask_threshold;
  std::vector<float> probabilities(kept.size() * width);
  std::vector<float> best(width);
  std::vector<int32_t> winners(width * grid.height);
  for (int y = 0; y < grid.height; ++y) {
    for (size_t k = 0; k < kept.size(); ++k) rows[k].PictureRow(y, &probabilities[k * width]);
    SigmoidInPlace(absl::MakeSpan(probabilities));
    int32_t* winner = &winners[y * width];
    std::fill(best.begin(), best.end(), -1.0f);
    for (size_t k = 0; k < kept.size(); ++k) {
      const float* row = &probabilities[k * width];
      const float score = kept[k].score;
      int64_t inside = 0;
      for (size_t x = 0; x < width; ++x) {
        const float value = score * row[x];
        inside += row[x] >= threshold ? 1 : 0;
        winner[x] = value > best[x] ? static_cast<int32_t>(k) : winner[x];
        best[x] = std::max(best[x], value);
      }
      kept[k].inside += inside;
    }
    for (size_t x = 0; x < width; ++x) {
      KeptQuery& query = kept[winner[x]];
      ++query.won;
      if (probabilities[winner[x] * width + x] >= threshold) {
        ++query.won_inside;
      } else {
        winner[x] = -1;
      }
    }
  }
  return winners;
}

// Gives ids 1, 2, … in the queries' order to those that keep enough of their masks; queries of a
// fused label share one.
void GiveIds(const AnswerContext& context, std::vector<KeptQuery>& kept) {
  std::map<int, int32_t> id_of_fused_label;
  int32_t last_id = kPanopticVoid;
  for (KeptQuery& query : kept) {
    if (query.won_inside == 0) continue;
    const double share = static_cast<double>(query.won) / static_cast<double>(query.inside);
    if (share < context.options.overlap_mask_area_threshold) continue;
    if (context.Fuses(query.label_id)) {
      const auto [id, is_new] = id_of_fused_label.try_emplace(query.label_id, last_id + 1);
      if (is_new) ++last_id;
      query.segment_id = id->second;
    } else {
      query.segment_id = ++last_id;
    }
  }
}

}  // namespace

SegmentationResult PanopticAnswer(const Mask2FormerOutputs& outputs, const AnswerContext& context) {
  const int width = context.geometry.width, height = context.geometry.height;
  SegmentationResult result{.width = width, .height = height, .segments = {}, .id_map = {}};
  std::vector<KeptQuery> kept = KeepQueries(outputs, context);
  std::vector<int32_t> ids;
  if (kept.empty()) {
    ids.assign(static_cast<size_t>(width) * height, kPanopticVoid);
  } else {
    ids = Compete(outputs, context, kept);
    GiveIds(context, kept);
    for (int32_t& id : ids) id = id < 0 ? kPanopticVoid : kept[id].segment_id;
  }

  struct Described {
    int label_id;
    float score;
  };
  std::map<int32_t, Described> described;  // by id
  for (const KeptQuery& query : kept) {
    if (query.segment_id == kPanopticVoid) continue;
    const auto [segment, is_new] =
        described.try_emplace(query.segment_id, Described{query.label_id, query.score});
    segment->second.score = std::max(segment->second.score, query.score);
  }
  std::vector<int32_t> segment_ids;
  for (const auto& [id, segment] : described) segment_ids.push_back(id);
  std::vector<Rle> masks = EncodeRleOfValues(ids.data(), height, width, segment_ids);
  for (size_t i = 0; i < masks.size(); ++i) {
    const Described& segment = described.at(segment_ids[i]);
    result.segments.push_back(
        MakeMaskSegment(segment_ids[i], segment.label_id, segment.score, std::move(masks[i])));
  }
  result.id_map = IdMap{width, height, kPanopticVoid, std::move(ids)};
  return result;
}

}  // namespace deform::pipeline
