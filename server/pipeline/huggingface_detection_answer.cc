#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

// In their float32 steps: to corners, then to pixels. Not clipped.
Box PixelBox(const float* box, const PictureGeometry& geometry) {
  const auto width = static_cast<float>(geometry.width);
  const auto height = static_cast<float>(geometry.height);
  const float left = (box[0] - 0.5f * box[2]) * width;
  const float top = (box[1] - 0.5f * box[3]) * height;
  const float right = (box[0] + 0.5f * box[2]) * width;
  const float bottom = (box[1] + 0.5f * box[3]) * height;
  return {left, top, right - left, bottom - top};
}

}  // namespace

SegmentationResult HuggingFaceDetectionAnswer(const DetectionOutputs& outputs,
                                              const AnswerContext& context) {
  const int64_t pairs = int64_t{outputs.queries} * outputs.classes;
  const at::Tensor probabilities =
      at::sigmoid(at::from_blob(const_cast<float*>(outputs.logits), {1, pairs}));
  const auto [scores, indices] =
      at::topk(probabilities, std::min<int64_t>(context.options.max_results, pairs), 1);
  SegmentationResult result{.width = context.geometry.width,
                            .height = context.geometry.height,
                            .segments = {},
                            .id_map = {}};
  for (int64_t i = 0; i < scores.numel(); ++i) {
    const float score = scores.const_data_ptr<float>()[i];
    const int64_t index = indices.const_data_ptr<int64_t>()[i];
    const auto label_id = static_cast<int32_t>(index % outputs.classes);
    if (!(score > context.options.score_threshold) || !context.Keeps(label_id)) continue;
    Segment segment;
    segment.id = static_cast<int32_t>(result.segments.size() + 1);
    segment.label_id = label_id;
    segment.score = score;
    segment.box = PixelBox(outputs.boxes + index / outputs.classes * 4, context.geometry);
    segment.area = std::llround(static_cast<double>(segment.box.width) * segment.box.height);
    result.segments.push_back(segment);
  }
  return result;
}

}  // namespace deform::pipeline
