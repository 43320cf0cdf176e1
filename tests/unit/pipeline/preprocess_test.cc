// Against Hugging Face's image processors (tests/support/make_pipeline_fixtures.py).

#include "pipeline/preprocess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fixtures.h"

namespace deform::pipeline {
namespace {

using Json = nlohmann::json;
using Mode = engine::PreprocessSpec::Mode;

engine::PreprocessSpec Spec(Mode mode, int height, int width) {
  engine::PreprocessSpec spec;
  spec.mode = mode;
  spec.height = height;
  spec.width = width;
  spec.mean = {0.485, 0.456, 0.406};
  spec.std = {0.229, 0.224, 0.225};
  return spec;
}

TEST(PreprocessTest, EqualsHuggingFaceBitForBit) {
  int compared = 0;
  for (const Json& expected : Json::parse(ReadTestFile("pipeline/preprocess.json"))) {
    const std::string mode = expected.at("mode");
    engine::PreprocessSpec spec = Spec(mode == "fit" ? Mode::kFit : Mode::kExact,
                                       expected.at("net_height"), expected.at("net_width"));
    spec.antialias = mode != "plain";
    const auto input = Preprocess(RingsPicture(expected.at("height"), expected.at("width")), spec);
    ASSERT_TRUE(input.ok()) << input.status();
    EXPECT_EQ(input->geometry.content_height, expected.at("content_height"));
    EXPECT_EQ(input->geometry.content_width, expected.at("content_width"));
    ASSERT_EQ(input->tensors.size(), 1u);
    const engine::Tensor& values = input->tensors[0];
    ASSERT_EQ(values.shape(), (std::vector<int64_t>{1, 3, spec.height, spec.width}));
    const engine::Tensor theirs = ReadNpy(expected.at("values"));
    ASSERT_EQ(values.bytes(), theirs.bytes());
    if (mode == "plain") {  // normalised there in other steps
      for (int64_t i = 0; i < values.element_count(); ++i)
        ASSERT_NEAR(values.data_as<float>()[i], theirs.data_as<float>()[i], 1e-6);
    } else {
      EXPECT_EQ(std::memcmp(values.data(), theirs.data(), values.bytes()), 0)
          << expected.at("values");
    }
    ++compared;
  }
  EXPECT_EQ(compared, 11);
}

TEST(PreprocessTest, PixelMaskIsOneOnContentAlone) {
  engine::PreprocessSpec spec = Spec(Mode::kFit, 40, 56);
  spec.pixel_mask = true;
  const auto input = Preprocess(RingsPicture(300, 200), spec);
  ASSERT_TRUE(input.ok()) << input.status();
  ASSERT_EQ(input->tensors.size(), 2u);
  const engine::Tensor& mask = input->tensors[1];
  EXPECT_EQ(mask.dtype(), engine::DType::kInt64);
  ASSERT_EQ(mask.shape(), (std::vector<int64_t>{1, 40, 56}));
  for (int y = 0; y < 40; ++y) {
    for (int x = 0; x < 56; ++x) {
      ASSERT_EQ(mask.data_as<int64_t>()[y * 56 + x], x < 27 ? 1 : 0) << x << ", " << y;
      if (x >= 27) {
        ASSERT_EQ(input->tensors[0].data_as<float>()[y * 56 + x], 0.0f);
      }
    }
  }
}

TEST(PreprocessTest, GeometryKeepsASideOfOnePixel) {
  const auto content = [](int width, int height) {
    const PictureGeometry geometry = ComputeGeometry(width, height, Spec(Mode::kFit, 64, 96));
    EXPECT_EQ(geometry.width, width);
    EXPECT_EQ(geometry.height, height);
    return std::pair(geometry.content_width, geometry.content_height);
  };
  EXPECT_EQ(content(4000, 1), std::pair(96, 1));
  EXPECT_EQ(content(1, 4000), std::pair(1, 64));
  EXPECT_EQ(content(1, 1), std::pair(64, 64));
  EXPECT_EQ(content(96, 64), std::pair(96, 64));
  EXPECT_EQ(content(192, 127), std::pair(96, 64));  // 63.5 rounds up
  EXPECT_EQ(content(3, 1333), std::pair(1, 64));
}

}  // namespace
}  // namespace deform::pipeline
