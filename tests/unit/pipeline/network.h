#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "fixtures.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {

// Class probabilities and mask probabilities as a network's logits: log(p) and log(q / (1 - q)).
struct Network {
  int height = 96, width = 96;                            // of the mask logits
  std::vector<std::vector<float>> classes;                // [query][class, "no object" last]
  std::vector<std::function<float(int y, int x)>> masks;  // by query

  std::vector<engine::Tensor> Outputs() const {
    std::vector<float> class_logits, mask_logits;
    for (const auto& query : classes) {
      for (const float p : query) class_logits.push_back(std::log(p));
    }
    for (const auto& mask : masks) {
      for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
          const float q = mask(y, x);
          mask_logits.push_back(std::log(q / (1 - q)));
        }
      }
    }
    const auto queries = static_cast<int64_t>(classes.size());
    return {MakeTensor({queries, static_cast<int64_t>(classes[0].size())}, class_logits),
            MakeTensor({queries, height, width}, mask_logits)};
  }

  engine::PackageManifest Manifest(int network_height, int network_width) const {
    engine::PackageManifest manifest;
    manifest.architecture = engine::Architecture::kMask2Former;
    manifest.num_queries = static_cast<int>(classes.size());
    manifest.num_classes = static_cast<int>(classes[0].size()) - 1;
    manifest.preprocess.height = network_height;
    manifest.preprocess.width = network_width;
    return manifest;
  }
};

inline PictureGeometry Geometry(const engine::PackageManifest& manifest, int height, int width) {
  return ComputeGeometry(width, height, manifest.preprocess);
}

inline SegmentationResult Answer(const engine::PackageManifest& manifest,
                                 const std::vector<engine::Tensor>& outputs,
                                 const PictureGeometry& geometry,
                                 const PostprocessOptions& options) {
  auto result = Postprocess(manifest, outputs, geometry, options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->height, geometry.height);
  EXPECT_EQ(result->width, geometry.width);
  return *std::move(result);
}

inline std::vector<int32_t> Ids(const SegmentationResult& result) {
  std::vector<int32_t> ids;
  for (const Segment& segment : result.segments) ids.push_back(segment.id);
  return ids;
}

inline std::vector<int32_t> LabelIds(const SegmentationResult& result) {
  std::vector<int32_t> label_ids;
  for (const Segment& segment : result.segments) label_ids.push_back(segment.label_id);
  return label_ids;
}

inline std::vector<int64_t> Areas(const SegmentationResult& result) {
  std::vector<int64_t> areas;
  for (const Segment& segment : result.segments) areas.push_back(segment.area);
  return areas;
}

}  // namespace deform::pipeline
