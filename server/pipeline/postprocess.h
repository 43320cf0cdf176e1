#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/package_manifest.h"
#include "engine/tensor.h"
#include "pipeline/preprocess.h"
#include "pipeline/rle.h"

namespace deform::pipeline {

// Resolved options: the request's where set, else the package's.
struct PostprocessOptions {
  engine::Task task = engine::Task::kInstance;
  engine::Compat compat = engine::Compat::kDefault;
  float score_threshold = 0.5f;
  float mask_threshold = 0.5f;
  float overlap_mask_area_threshold = 0.8f;
  // Instance and detection:
  int max_results = 100;
  std::vector<int32_t> label_ids = {};  // keep only these network classes; empty: all
};

// Float pixels of the upright picture, clipped to it; detections of compat kHuggingFace are not.
struct Box {
  float x = 0, y = 0, width = 0, height = 0;
};

struct Segment {
  int32_t id = 0;  // value in the id map for panoptic answers; 1, 2, … in order otherwise
  int32_t label_id = 0;
  float score = 0;
  Box box;
  int64_t area = 0;         // pixels of the mask; of the box, rounded, for detections
  std::optional<Rle> mask;  // absent for detections
};

struct IdMap {
  int width = 0;
  int height = 0;
  int32_t void_value = 0;  // panoptic 0, semantic 65535
  // [height, width] row-major: segment ids (panoptic) or label ids (semantic).
  std::vector<int32_t> ids;
};

struct SegmentationResult {
  int width = 0;  // of the upright picture
  int height = 0;
  std::vector<Segment> segments;
  std::optional<IdMap> id_map;  // semantic and panoptic
};

// Turns one picture's row of the network's outputs into an answer in the upright picture's frame.
// outputs: mask2former class_queries_logits [Q, C+1], masks_queries_logits [Q, h, w];
//          deformable_detr logits [Q, C], pred_boxes [Q, 4] as cx, cy, w, h in [0, 1].
// The rules are in docs/postprocessing.md; compat kHuggingFace reproduces the processors of
// Hugging Face transformers. INTERNAL when outputs don't have these shapes, or hold NaN.
// Thread-safe.
absl::StatusOr<SegmentationResult> Postprocess(const engine::PackageManifest& manifest,
                                               absl::Span<const engine::Tensor> outputs,
                                               const PictureGeometry& geometry,
                                               const PostprocessOptions& options);

// A 16-bit (8-bit where every value fits) grey PNG of the id map.
absl::StatusOr<std::string> EncodeIdMapPng(const IdMap& id_map);

// An 8-bit grey PNG of a mask, 0 and 255.
absl::StatusOr<std::string> EncodeMaskPng(const Rle& mask);

}  // namespace deform::pipeline
