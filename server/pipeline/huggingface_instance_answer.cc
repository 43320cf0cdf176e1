#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "pipeline/huggingface_arithmetic.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

struct Candidate {
  float class_probability = 0;
  int query = 0;
  int label_id = 0;
};

// The `queries` likeliest pairs of query and class, in the order of torch's unsorted topk.
std::vector<Candidate> LikeliestPairs(const Mask2FormerOutputs& outputs) {
  const at::Tensor logits = at::from_blob(const_cast<float*>(outputs.class_logits),
                                          {outputs.queries, outputs.classes + 1});
  const at::Tensor probabilities =
      at::softmax(logits, -1).narrow(1, 0, outputs.classes).reshape({-1});
  const auto [values, indices] =
      at::topk(probabilities, outputs.queries, /*dim=*/0, /*largest=*/true, /*sorted=*/false);
  std::vector<Candidate> pairs;
  for (int64_t i = 0; i < values.numel(); ++i) {
    const int64_t index = indices.const_data_ptr<int64_t>()[i];
    pairs.push_back({values.const_data_ptr<float>()[i], static_cast<int>(index / outputs.classes),
                     static_cast<int>(index % outputs.classes)});
  }
  return pairs;
}

struct QueryMask {
  float score = 0;  // mean probability inside of the mask
  Rle mask;         // at the picture's size
};

QueryMask ReadMask(const Mask2FormerOutputs& outputs, int query, const PictureGeometry& geometry) {
  const at::Tensor logits =
      at::upsample_bilinear2d(at::from_blob(const_cast<float*>(outputs.MaskLogits(query)),
                                            {1, 1, outputs.height, outputs.width}),
                              {kHuggingFaceMaskSide, kHuggingFaceMaskSide},
                              /*align_corners=*/false)
          .reshape({1, -1});
  const at::Tensor inside = at::gt(logits, 0).to(at::kFloat);
  const at::Tensor mean =
      at::sum(at::sigmoid(logits).mul(inside), 1).div(at::sum(inside, 1).add(1e-6));
  const at::Tensor mask =
      at::upsample_nearest2d(
          inside.to(at::kByte).view({1, 1, kHuggingFaceMaskSide, kHuggingFaceMaskSide}),
          {geometry.height, geometry.width})
          .contiguous();
  return {mean.item<float>(),
          EncodeRle(mask.const_data_ptr<uint8_t>(), geometry.height, geometry.width)};
}

// Indices of the `most` best-scored segments, in their order.
std::vector<size_t> Best(const std::vector<Segment>& segments, int most) {
  std::vector<size_t> order(segments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() <= static_cast<size_t>(most)) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return segments[a].score > segments[b].score; });
  order.resize(most);
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

SegmentationResult HuggingFaceInstanceAnswer(const Mask2FormerOutputs& outputs,
                                             const AnswerContext& context) {
  const double threshold = WrittenValue(context.options.score_threshold);
  std::map<int, QueryMask> masks;  // by query
  std::vector<Segment> segments;
  for (const Candidate& candidate : LikeliestPairs(outputs)) {
    // A mask's score is at most 1: its mask need not be looked at.
    if (!(candidate.class_probability >= threshold) || !context.Keeps(candidate.label_id)) continue;
    const auto [mask, is_new] = masks.try_emplace(candidate.query);
    if (is_new) mask->second = ReadMask(outputs, candidate.query, context.geometry);
    const float score = candidate.class_probability * mask->second.score;
    if (!(score >= threshold) || RleArea(mask->second.mask) == 0) continue;
    segments.push_back(
        MakeMaskSegment(0, candidate.label_id, RoundToSixDigits(score), mask->second.mask));
  }
  SegmentationResult result{.width = context.geometry.width,
                            .height = context.geometry.height,
                            .segments = {},
                            .id_map = {}};
  for (const size_t index : Best(segments, context.options.max_results)) {
    segments[index].id = static_cast<int32_t>(result.segments.size() + 1);
    result.segments.push_back(std::move(segments[index]));
  }
  return result;
}

}  // namespace deform::pipeline
