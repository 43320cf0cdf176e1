#pragma once

#include <cstdint>

#include "engine/package_manifest.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {

// One function for each task and rule, in a file of its own; postprocess.cc checks the outputs'
// shapes and picks one. Rules: docs/postprocessing.md. May throw c10::Error.

// What a rule reads beside the network's outputs.
struct AnswerContext {
  const engine::PackageManifest& manifest;
  const PictureGeometry& geometry;
  const PostprocessOptions& options;

  // Whether options.label_ids lets the class through.
  bool Keeps(int32_t label_id) const;
  // Whether panoptic answers merge the class into one segment.
  bool Fuses(int32_t label_id) const;
};

struct Mask2FormerOutputs {
  const float* class_logits = nullptr;  // [queries, classes + 1], the last is "no object"
  const float* mask_logits = nullptr;   // [queries, height, width]
  int queries = 0, classes = 0, height = 0, width = 0;

  const float* MaskLogits(int query) const { return mask_logits + int64_t{query} * height * width; }
};

struct DetectionOutputs {
  const float* logits = nullptr;  // [queries, classes]
  const float* boxes = nullptr;   // [queries, 4]: cx, cy, w, h in [0, 1]
  int queries = 0, classes = 0;
};

SegmentationResult InstanceAnswer(const Mask2FormerOutputs& outputs, const AnswerContext& context);
SegmentationResult SemanticAnswer(const Mask2FormerOutputs& outputs, const AnswerContext& context);
SegmentationResult PanopticAnswer(const Mask2FormerOutputs& outputs, const AnswerContext& context);
SegmentationResult DetectionAnswer(const DetectionOutputs& outputs, const AnswerContext& context);

// As the image processors of Hugging Face transformers answer.
SegmentationResult HuggingFaceInstanceAnswer(const Mask2FormerOutputs& outputs,
                                             const AnswerContext& context);
SegmentationResult HuggingFaceSemanticAnswer(const Mask2FormerOutputs& outputs,
                                             const AnswerContext& context);
SegmentationResult HuggingFacePanopticAnswer(const Mask2FormerOutputs& outputs,
                                             const AnswerContext& context);
SegmentationResult HuggingFaceDetectionAnswer(const DetectionOutputs& outputs,
                                              const AnswerContext& context);

inline constexpr int32_t kPanopticVoid = 0;
inline constexpr int32_t kSemanticVoid = 65535;

// A segment with this mask, and the mask's area and bounds.
Segment MakeMaskSegment(int32_t id, int32_t label_id, float score, Rle mask);

// The answer to SEMANTIC: a segment for each label that a pixel has, by label id, scored by the
// mean of `winning_values` over its pixels, at most 1. Both maps are [height, width] of the
// picture.
SegmentationResult SemanticResult(const AnswerContext& context, std::vector<int32_t> label_map,
                                  absl::Span<const float> winning_values);

}  // namespace deform::pipeline
