#include "pipeline/preprocess.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace deform::pipeline {
namespace {

// One side of a picture scaled to fit, at least one pixel and at most `most`.
int ScaledSide(int side, double scale, int most) {
  return std::clamp(static_cast<int>(std::floor(side * scale + 0.5)), 1, most);
}

// uint8 [1, 3, height, width] in any strides. torch's uint8 kernels work on integers and give the
// same values on every CPU and in every memory format.
at::Tensor Resize(const Picture& picture, int height, int width, bool antialias) {
  const int64_t row = int64_t{3} * picture.width;
  const at::Tensor pixels =
      at::from_blob(const_cast<uint8_t*>(picture.rgb.data()), {1, 3, picture.height, picture.width},
                    {row * picture.height, 1, row, 3}, at::TensorOptions().dtype(at::kByte));
  if (height == picture.height && width == picture.width) return pixels;
  return antialias ? at::_upsample_bilinear2d_aa(pixels, {height, width}, /*align_corners=*/false)
                   : at::upsample_bilinear2d(pixels, {height, width}, /*align_corners=*/false);
}

using ValueTable = std::array<float, 256>;

// What each 8-bit value becomes in one channel. Hugging Face's processors fold the rescaling into
// mean and std, in float32; the same steps in the same order give the same bits.
ValueTable Normalisation(const engine::PreprocessSpec& spec, int channel) {
  const float scale = static_cast<float>(1.0 / spec.rescale_factor);
  const float mean = static_cast<float>(spec.mean[channel]) * scale;
  const float std = static_cast<float>(spec.std[channel]) * scale;
  ValueTable table;
  for (int value = 0; value < 256; ++value) table[value] = (static_cast<float>(value) - mean) / std;
  return table;
}

// Writes the resized picture to the top left of a zeroed float32 [3, H, W].
void Normalise(const at::Tensor& resized, const engine::PreprocessSpec& spec, float* values) {
  const int64_t height = resized.size(2), width = resized.size(3);
  for (int channel = 0; channel < 3; ++channel) {
    const ValueTable table = Normalisation(spec, channel);
    for (int64_t y = 0; y < height; ++y) {
      const uint8_t* from =
          resized.const_data_ptr<uint8_t>() + channel * resized.stride(1) + y * resized.stride(2);
      float* to = values + (int64_t{channel} * spec.height + y) * spec.width;
      for (int64_t x = 0; x < width; ++x) to[x] = table[from[x * resized.stride(3)]];
    }
  }
}

engine::Tensor PixelMask(const PictureGeometry& geometry, const engine::PreprocessSpec& spec) {
  engine::Tensor mask =
      engine::Tensor::Allocate(engine::DType::kInt64, {1, spec.height, spec.width});
  auto* row = static_cast<int64_t*>(mask.mutable_data());
  for (int y = 0; y < spec.height; ++y, row += spec.width) {
    const int content = y < geometry.content_height ? geometry.content_width : 0;
    std::fill_n(row, content, 1);
    std::fill_n(row + content, spec.width - content, 0);
  }
  return mask;
}

}  // namespace

PictureGeometry ComputeGeometry(int width, int height, const engine::PreprocessSpec& spec) {
  PictureGeometry geometry{
      .width = width, .height = height, .content_width = spec.width, .content_height = spec.height};
  if (spec.mode == engine::PreprocessSpec::Mode::kFit) {
    const double scale = std::min(static_cast<double>(spec.height) / height,
                                  static_cast<double>(spec.width) / width);
    geometry.content_width = ScaledSide(width, scale, spec.width);
    geometry.content_height = ScaledSide(height, scale, spec.height);
  }
  return geometry;
}

absl::StatusOr<NetworkInput> Preprocess(const Picture& picture,
                                        const engine::PreprocessSpec& spec) {
  try {
    const c10::InferenceMode no_autograd;
    NetworkInput input;
    input.geometry = ComputeGeometry(picture.width, picture.height, spec);
    engine::Tensor values =
        engine::Tensor::Allocate(engine::DType::kFloat32, {1, 3, spec.height, spec.width});
    std::memset(values.mutable_data(), 0, values.bytes());
    Normalise(Resize(picture, input.geometry.content_height, input.geometry.content_width,
                     spec.antialias),
              spec, static_cast<float*>(values.mutable_data()));
    input.tensors.push_back(std::move(values));
    if (spec.pixel_mask) input.tensors.push_back(PixelMask(input.geometry, spec));
    return input;
  } catch (const c10::Error& error) {
    return absl::InternalError("resizing the picture failed");
  }
}

}  // namespace deform::pipeline
