#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/package_manifest.h"
#include "engine/tensor.h"
#include "pipeline/picture.h"

namespace deform::pipeline {

// Where a picture lies in the network's input.
struct PictureGeometry {
  int width = 0;  // upright picture, pixels
  int height = 0;
  int content_width = 0;   // what it covers of the network's input, from the top left; the rest is
  int content_height = 0;  // padding
};

// The sizes alone, by spec.mode. INVALID_ARGUMENT never: a side is at least 1.
PictureGeometry ComputeGeometry(int width, int height, const engine::PreprocessSpec& spec);

struct NetworkInput {
  PictureGeometry geometry;
  // As the manifest's inputs with a batch of 1: pixel_values float32 [1, 3, H, W] and, where the
  // spec asks for it, pixel_mask int64 [1, H, W].
  std::vector<engine::Tensor> tensors;
};

// Resizes (uint8, antialiased bilinear, as torchvision does on uint8 tensors), rescales,
// normalises, pads with zeros. Thread-safe.
absl::StatusOr<NetworkInput> Preprocess(const Picture& picture, const engine::PreprocessSpec& spec);

}  // namespace deform::pipeline
