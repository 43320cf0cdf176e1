#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "pipeline/mask_upsampling.h"
#include "pipeline/probabilities.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

struct Candidate {
  float score = 0;  // the class probability at first, times the mask's in the end
  int query = 0;
  int label_id = 0;
};

bool Better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.query != b.query) return a.query < b.query;
  return a.label_id < b.label_id;
}

// The likeliest pairs of query and class, best first; a query may be there with several classes.
std::vector<Candidate> LikeliestPairs(const Mask2FormerOutputs& outputs,
                                      const AnswerContext& context) {
  std::vector<int> classes;
  for (int label_id = 0; label_id < outputs.classes; ++label_id) {
    const engine::Label* label = context.manifest.FindLabel(label_id);
    const bool is_stuff = label != nullptr && label->is_thing == false;
    if (!is_stuff && context.Keeps(label_id)) classes.push_back(label_id);
  }
  const std::vector<float> probabilities =
      Softmax(outputs.class_logits, outputs.queries, outputs.classes + 1);
  std::vector<Candidate> pairs;
  for (int query = 0; query < outputs.queries; ++query) {
    for (const int label_id : classes) {
      const float p = probabilities[static_cast<size_t>(query) * (outputs.classes + 1) + label_id];
      // A mask's mean probability is at most 1: what is below now stays below.
      if (p >= context.options.score_threshold) pairs.push_back({p, query, label_id});
    }
  }
  std::sort(pairs.begin(), pairs.end(), Better);
  const auto most = static_cast<size_t>(std::max(outputs.queries, context.options.max_results));
  if (pairs.size() > most) pairs.resize(most);
  return pairs;
}

// Reads one query's mask.
class QueryMasks {
 public:
  QueryMasks(const Mask2FormerOutputs& outputs, const AnswerContext& context)
      : outputs_(outputs),
        grid_(MakeMaskGrid(outputs.width, outputs.height, context.manifest.preprocess,
                           context.geometry)),
        threshold_(Logit(context.options.mask_threshold)) {}

  // Mean probability inside of the mask, at the size of the network's input; 0 for an empty mask.
  float MeanProbability(int query) {
    inside_.clear();
    MaskRows rows(outputs_.MaskLogits(query), &grid_);
    for (int y = 0; y < grid_.content_height; ++y) {
      const float* row = rows.ContentRow(y);
      for (int x = 0; x < grid_.content_width; ++x) {
        if (row[x] >= threshold_) inside_.push_back(row[x]);
      }
    }
    if (inside_.empty()) return 0;
    SigmoidInPlace(absl::MakeSpan(inside_));
    double sum = 0;
    for (const float probability : inside_) sum += probability;
    return static_cast<float>(sum / static_cast<double>(inside_.size()));
  }

  // The mask at the picture's size.
  Rle Mask(int query) {
    mask_.resize(static_cast<size_t>(grid_.width) * grid_.height);
    row_.resize(grid_.width);
    MaskRows rows(outputs_.MaskLogits(query), &grid_);
    for (int y = 0; y < grid_.height; ++y) {
      uint8_t* to = &mask_[static_cast<size_t>(y) * grid_.width];
      if (!rows.MayReach(y, threshold_)) {
        std::fill_n(to, grid_.width, 0);
        continue;
      }
      rows.PictureRow(y, row_.data());
      for (int x = 0; x < grid_.width; ++x) to[x] = row_[x] >= threshold_ ? 1 : 0;
    }
    return EncodeRle(mask_.data(), grid_.height, grid_.width);
  }

 private:
  const Mask2FormerOutputs& outputs_;
  const MaskGrid grid_;
  const float threshold_;
  std::vector<float> inside_, row_;
  std::vector<uint8_t> mask_;
};

}  // namespace

SegmentationResult InstanceAnswer(const Mask2FormerOutputs& outputs, const AnswerContext& context) {
  std::vector<Candidate> candidates = LikeliestPairs(outputs, context);
  QueryMasks masks(outputs, context);
  std::map<int, float> mean_probability;  // by query
  for (Candidate& candidate : candidates) {
    const auto [mean, is_new] = mean_probability.try_emplace(candidate.query, 0.0f);
    if (is_new) mean->second = masks.MeanProbability(candidate.query);
    candidate.score *= mean->second;
  }
  std::sort(candidates.begin(), candidates.end(), Better);

  SegmentationResult result{.width = context.geometry.width,
                            .height = context.geometry.height,
                            .segments = {},
                            .id_map = {}};
  std::map<int, Rle> mask_of;  // by query
  for (const Candidate& candidate : candidates) {
    const auto found = static_cast<int>(result.segments.size());
    if (found == context.options.max_results) break;
    if (!(candidate.score >= context.options.score_threshold)) break;
    if (mean_probability.at(candidate.query) == 0) continue;
    const auto [mask, is_new] = mask_of.try_emplace(candidate.query);
    if (is_new) mask->second = masks.Mask(candidate.query);
    Segment segment = MakeMaskSegment(found + 1, candidate.label_id, candidate.score, mask->second);
    if (segment.area > 0) result.segments.push_back(std::move(segment));
  }
  return result;
}

}  // namespace deform::pipeline
