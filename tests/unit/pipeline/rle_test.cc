// Against pycocotools (tests/support/make_pipeline_fixtures.py).

#include "pipeline/rle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "fixtures.h"

namespace deform::pipeline {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

std::vector<uint8_t> NoiseMask(int height, int width, uint64_t seed, uint64_t per_mille) {
  std::vector<uint8_t> mask(static_cast<size_t>(height) * width);
  for (uint8_t& pixel : mask) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    pixel = (seed >> 33) % 1000 < per_mille ? 1 : 0;
  }
  return mask;
}

std::vector<uint8_t> DiskMask(int height, int width, int x, int y, int radius) {
  std::vector<uint8_t> mask;
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column)
      mask.push_back((column - x) * (column - x) + (row - y) * (row - y) < radius * radius);
  }
  return mask;
}

std::vector<uint8_t> MaskOf(const Json& expected) {
  const int height = expected.at("height"), width = expected.at("width");
  if (expected.at("kind") == "noise")
    return NoiseMask(height, width, expected.at("seed"), expected.at("per_mille"));
  return DiskMask(height, width, expected.at("x"), expected.at("y"), expected.at("radius"));
}

TEST(RleTest, EqualsPycocotools) {
  int compared = 0;
  for (const Json& expected : Json::parse(ReadTestFile("pipeline/rle.json"))) {
    const int height = expected.at("height"), width = expected.at("width");
    std::vector<uint8_t> mask = MaskOf(expected);
    Rle rle = EncodeRle(mask.data(), height, width);
    EXPECT_EQ(rle.height, height);
    EXPECT_EQ(rle.width, width);
    EXPECT_EQ(CompressCounts(rle.counts), expected.at("counts")) << expected;
    EXPECT_EQ(RleArea(rle), expected.at("area")) << expected;
    const PixelRect bounds = RleBounds(rle);
    EXPECT_THAT(std::vector<int>({bounds.x, bounds.y, bounds.width, bounds.height}),
                testing::ElementsAreArray(expected.at("box").get<std::vector<int>>()))
        << expected;
    EXPECT_EQ(DecodeRle(rle), mask) << expected;
    // Any value but 0 is inside.
    for (uint8_t& pixel : mask) pixel = pixel != 0 ? 255 : 0;
    EXPECT_EQ(EncodeRle(mask.data(), height, width).counts, rle.counts);
    ++compared;
  }
  EXPECT_EQ(compared, 17);
}

TEST(RleTest, RunsDownColumns) {
  const std::vector<uint8_t> mask = {0, 1, 1, 0,  //
                                     0, 1, 0, 0,  //
                                     1, 1, 0, 0};
  const Rle rle = EncodeRle(mask.data(), 3, 4);
  EXPECT_THAT(rle.counts, ElementsAre(2, 5, 5));
  EXPECT_EQ(CompressCounts(rle.counts), "255");
}

TEST(RleTest, StartsWithZeros) {
  EXPECT_THAT(EncodeRle(std::vector<uint8_t>(6, 0).data(), 2, 3).counts, ElementsAre(6));
  EXPECT_THAT(EncodeRle(std::vector<uint8_t>(6, 1).data(), 2, 3).counts, ElementsAre(0, 6));
  EXPECT_THAT(EncodeRle(std::vector<uint8_t>{1, 1, 0, 0, 0, 1}.data(), 2, 3).counts,
              ElementsAre(0, 1, 1, 1, 2, 1));
}

TEST(RleTest, RunsOfDifferentNonZeroValuesAreOne) {
  EXPECT_THAT(EncodeRle(std::vector<uint8_t>{0, 1, 2, 2, 255, 0}.data(), 6, 1).counts,
              ElementsAre(1, 4, 1));
}

TEST(RleTest, OnePassOverAMapGivesTheMaskOfEachValue) {
  constexpr int kHeight = 37, kWidth = 71;
  std::vector<int32_t> map(kHeight * kWidth);
  uint64_t seed = 5;
  for (int32_t& value : map) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<int32_t>((seed >> 33) % 5) * 1000;
  }
  const std::vector<int32_t> values = {3000, 0, 17, 1000};
  const std::vector<Rle> rles = EncodeRleOfValues(map.data(), kHeight, kWidth, values);
  ASSERT_EQ(rles.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<uint8_t> mask;
    for (const int32_t value : map) mask.push_back(value == values[i] ? 1 : 0);
    EXPECT_EQ(rles[i].counts, EncodeRle(mask.data(), kHeight, kWidth).counts) << values[i];
  }
  EXPECT_THAT(rles[2].counts, ElementsAre(kHeight * kWidth));
}

}  // namespace
}  // namespace deform::pipeline
