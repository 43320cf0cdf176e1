#include "pipeline/postprocess.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

absl::Status UnexpectedOutputs() {
  return absl::InternalError("the network's outputs don't have the shapes of its package");
}

bool IsFloat(const engine::Tensor& tensor, size_t rank) {
  return tensor.dtype() == engine::DType::kFloat32 && tensor.shape().size() == rank &&
         tensor.element_count() > 0;
}

bool HoldsNan(const engine::Tensor& tensor) {
  const float* const values = tensor.data_as<float>();
  const auto count = static_cast<int64_t>(tensor.element_count());
  constexpr int64_t kAtOnce = 4096;  // without a branch for each
  for (int64_t begin = 0; begin < count; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, count);
    int found = 0;
    for (int64_t i = begin; i < end; ++i) found |= values[i] != values[i];
    if (found != 0) return true;
  }
  return false;
}

// What such numbers come to in a comparison is nobody's answer.
absl::Status CheckNumbers(absl::Span<const engine::Tensor> outputs) {
  for (const engine::Tensor& output : outputs) {
    if (HoldsNan(output)) return absl::InternalError("the network's outputs hold NaN");
  }
  return absl::OkStatus();
}

absl::StatusOr<Mask2FormerOutputs> ReadMask2FormerOutputs(
    const engine::PackageManifest& manifest, absl::Span<const engine::Tensor> outputs) {
  if (outputs.size() != 2 || !IsFloat(outputs[0], 2) || !IsFloat(outputs[1], 3))
    return UnexpectedOutputs();
  const auto& classes = outputs[0].shape();
  const auto& masks = outputs[1].shape();
  if (classes[0] != manifest.num_queries || classes[1] != manifest.num_classes + 1 ||
      manifest.num_classes < 1 || masks[0] != classes[0])
    return UnexpectedOutputs();
  DEFORM_RETURN_IF_ERROR(CheckNumbers(outputs));
  return Mask2FormerOutputs{.class_logits = outputs[0].data_as<float>(),
                            .mask_logits = outputs[1].data_as<float>(),
                            .queries = manifest.num_queries,
                            .classes = manifest.num_classes,
                            .height = static_cast<int>(masks[1]),
                            .width = static_cast<int>(masks[2])};
}

absl::StatusOr<DetectionOutputs> ReadDetectionOutputs(const engine::PackageManifest& manifest,
                                                      absl::Span<const engine::Tensor> outputs) {
  if (outputs.size() != 2 || !IsFloat(outputs[0], 2) || !IsFloat(outputs[1], 2))
    return UnexpectedOutputs();
  const auto& logits = outputs[0].shape();
  const auto& boxes = outputs[1].shape();
  if (logits[0] != manifest.num_queries || logits[1] != manifest.num_classes ||
      boxes[0] != logits[0] || boxes[1] != 4)
    return UnexpectedOutputs();
  DEFORM_RETURN_IF_ERROR(CheckNumbers(outputs));
  return DetectionOutputs{.logits = outputs[0].data_as<float>(),
                          .boxes = outputs[1].data_as<float>(),
                          .queries = manifest.num_queries,
                          .classes = manifest.num_classes};
}

absl::StatusOr<SegmentationResult> Answer(absl::Span<const engine::Tensor> outputs,
                                          const AnswerContext& context) {
  const bool like_theirs = context.options.compat == engine::Compat::kHuggingFace;
  if (context.options.task == engine::Task::kDetection) {
    if (context.manifest.architecture != engine::Architecture::kDeformableDetr)
      return absl::InternalError("the network does not detect");
    DEFORM_ASSIGN_OR_RETURN(const auto detection, ReadDetectionOutputs(context.manifest, outputs));
    return like_theirs ? HuggingFaceDetectionAnswer(detection, context)
                       : DetectionAnswer(detection, context);
  }
  if (context.manifest.architecture != engine::Architecture::kMask2Former)
    return absl::InternalError("the network does not segment");
  DEFORM_ASSIGN_OR_RETURN(const auto masks, ReadMask2FormerOutputs(context.manifest, outputs));
  switch (context.options.task) {
    case engine::Task::kInstance:
      return like_theirs ? HuggingFaceInstanceAnswer(masks, context)
                         : InstanceAnswer(masks, context);
    case engine::Task::kSemantic:
      return like_theirs ? HuggingFaceSemanticAnswer(masks, context)
                         : SemanticAnswer(masks, context);
    case engine::Task::kPanoptic:
      return like_theirs ? HuggingFacePanopticAnswer(masks, context)
                         : PanopticAnswer(masks, context);
    case engine::Task::kDetection:
      break;
  }
  return absl::InternalError("unknown task");
}

bool Contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

}  // namespace

bool AnswerContext::Keeps(int32_t label_id) const {
  return options.label_ids.empty() || Contains(options.label_ids, label_id);
}

bool AnswerContext::Fuses(int32_t label_id) const {
  return Contains(manifest.postprocess.fuse_label_ids, label_id);
}

Segment MakeMaskSegment(int32_t id, int32_t label_id, float score, Rle mask) {
  const PixelRect bounds = RleBounds(mask);
  Segment segment;
  segment.id = id;
  segment.label_id = label_id;
  segment.score = score;
  segment.box = {static_cast<float>(bounds.x), static_cast<float>(bounds.y),
                 static_cast<float>(bounds.width), static_cast<float>(bounds.height)};
  segment.area = RleArea(mask);
  segment.mask = std::move(mask);
  return segment;
}

SegmentationResult SemanticResult(const AnswerContext& context, std::vector<int32_t> label_map,
                                  absl::Span<const float> winning_values) {
  struct Label {
    double sum = 0;
    int64_t pixels = 0;
  };
  std::map<int32_t, Label> labels;
  for (size_t begin = 0; begin < label_map.size();) {
    // By runs: neighbours mostly have the same label.
    Label& label = labels[label_map[begin]];
    size_t at = begin;
    for (; at < label_map.size() && label_map[at] == label_map[begin]; ++at)
      label.sum += winning_values[at];
    label.pixels += static_cast<int64_t>(at - begin);
    begin = at;
  }
  std::vector<int32_t> ids;
  for (const auto& [id, label] : labels) ids.push_back(id);
  const int width = context.geometry.width, height = context.geometry.height;
  std::vector<Rle> masks = EncodeRleOfValues(label_map.data(), height, width, ids);

  SegmentationResult result{.width = width, .height = height, .segments = {}, .id_map = {}};
  for (size_t i = 0; i < ids.size(); ++i) {
    const Label& label = labels.at(ids[i]);
    const double mean = label.sum / static_cast<double>(label.pixels);
    result.segments.push_back(MakeMaskSegment(static_cast<int32_t>(i + 1), ids[i],
                                              static_cast<float>(std::min(mean, 1.0)),
                                              std::move(masks[i])));
  }
  result.id_map = IdMap{width, height, kSemanticVoid, std::move(label_map)};
  return result;
}

absl::StatusOr<SegmentationResult> Postprocess(const engine::PackageManifest& manifest,
                                               absl::Span<const engine::Tensor> outputs,
                                               const PictureGeometry& geometry,
                                               const PostprocessOptions& options) {
  try {
    const c10::InferenceMode no_autograd;
    return Answer(outputs, {manifest, geometry, options});
  } catch (const c10::Error& error) {
    return absl::InternalError("post-processing failed");
  }
}

}  // namespace deform::pipeline
