#include <gtest/gtest.h>

#include "fixtures.h"
#include "pipeline/picture.h"
#include "pipeline/postprocess.h"

namespace deform::pipeline {
namespace {

// The first channel of a decoded PNG: 8-bit samples, or the upper byte of 16-bit ones.
std::vector<int> Decode(const absl::StatusOr<std::string>& png, int width, int height) {
  EXPECT_TRUE(png.ok()) << png.status();
  const auto picture = DecodePicture(*png, DecodeLimits());
  EXPECT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(picture->width, width);
  EXPECT_EQ(picture->height, height);
  std::vector<int> values;
  for (size_t i = 0; i < picture->rgb.size(); i += 3) values.push_back(picture->rgb[i]);
  return values;
}

// Byte 24 of a PNG is the bit depth, byte 25 the colour type, 0 for grey.
TEST(EncodePngTest, IdMapTakesEightBitsWhereAllValuesFit) {
  const IdMap map{.width = 3, .height = 2, .void_value = 0, .ids = {0, 1, 2, 255, 4, 0}};
  const auto png = EncodeIdMapPng(map);
  EXPECT_EQ(Decode(png, 3, 2), map.ids);
  EXPECT_EQ(png->at(24), 8);
  EXPECT_EQ(png->at(25), 0);
}

TEST(EncodePngTest, IdMapTakesSixteenBitsElse) {
  const IdMap map{
      .width = 2, .height = 3, .void_value = 65535, .ids = {0x0102, 0, 65535, 256, 0x7F00, 0x80FF}};
  const auto png = EncodeIdMapPng(map);
  EXPECT_EQ(Decode(png, 2, 3), (std::vector<int>{1, 0, 255, 1, 0x7F, 0x80}));
  EXPECT_EQ(png->at(24), 16);
  EXPECT_EQ(png->at(25), 0);
}

TEST(EncodePngTest, IdMapBeyondSixteenBitsIsRefused) {
  EXPECT_FALSE(EncodeIdMapPng({.width = 1, .height = 1, .void_value = 0, .ids = {65536}}).ok());
  EXPECT_FALSE(EncodeIdMapPng({.width = 1, .height = 1, .void_value = 0, .ids = {-1}}).ok());
}

TEST(EncodePngTest, MaskIsBlackAndWhite) {
  const std::vector<uint8_t> mask = {0, 1, 1, 0,  //
                                     0, 1, 0, 0,  //
                                     1, 1, 0, 0};
  EXPECT_EQ(Decode(EncodeMaskPng(EncodeRle(mask.data(), 3, 4)), 4, 3),
            (std::vector<int>{0, 255, 255, 0, 0, 255, 0, 0, 255, 255, 0, 0}));
}

}  // namespace
}  // namespace deform::pipeline
