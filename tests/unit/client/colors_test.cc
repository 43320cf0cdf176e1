#include "drawing/colors.h"

#include <algorithm>
#include <cstdlib>

#include "gtest/gtest.h"

namespace deform::client {
namespace {

int Difference(Color a, Color b) {
  return std::abs(a.red - b.red) + std::abs(a.green - b.green) + std::abs(a.blue - b.blue);
}

constexpr Color kBases[] = {{220, 20, 60},   {0, 130, 200},  {60, 180, 75},
                            {255, 200, 25},  {145, 30, 180}, {0, 0, 128},
                            {128, 128, 128}, {0, 0, 0},      {255, 255, 255}};

TEST(ColorFromRgb24, TakesRedFromTheHighestByte) {
  EXPECT_EQ(ColorFromRgb24(0x123456), (Color{0x12, 0x34, 0x56}));
}

TEST(InstanceShade, GivesTheFirstInstanceTheColorOfItsLabel) {
  for (const Color base : kBases) EXPECT_EQ(InstanceShade(base, 0), base);
}

TEST(InstanceShade, TellsTheFirstInstancesOfALabelApart) {
  for (const Color base : kBases) {
    for (int a = 1; a < 8; ++a) {
      for (int b = a + 1; b < 8; ++b) {
        EXPECT_GE(Difference(InstanceShade(base, a), InstanceShade(base, b)), 10)
            << a << " and " << b << " of " << int{base.red} << "," << int{base.green};
      }
    }
  }
}

TEST(InstanceShade, StaysNearTheHueOfTheLabel) {
  for (int index = 1; index < 50; ++index) {
    const Color red = InstanceShade({220, 20, 60}, index);
    EXPECT_GT(red.red, red.green);
    EXPECT_GT(red.red, red.blue);
    const Color blue = InstanceShade({0, 130, 200}, index);
    EXPECT_GT(blue.blue, blue.red);
    const Color grey = InstanceShade({128, 128, 128}, index);
    EXPECT_EQ(grey.red, grey.green);
    EXPECT_EQ(grey.red, grey.blue);
  }
}

TEST(ReadableTextColor, IsWhiteOnDarkAndBlackOnBright) {
  constexpr Color kWhite{255, 255, 255};
  constexpr Color kBlack{0, 0, 0};
  EXPECT_EQ(ReadableTextColor({0, 0, 128}), kWhite);
  EXPECT_EQ(ReadableTextColor({220, 20, 60}), kWhite);  // contrast 5.0, black has 4.2
  EXPECT_EQ(ReadableTextColor({255, 200, 25}), kBlack);
  EXPECT_EQ(ReadableTextColor({255, 255, 255}), kBlack);
  EXPECT_EQ(ReadableTextColor({128, 128, 128}), kBlack);  // contrast 5.3, white has 3.9
}

TEST(LabelColors, GivesLabelsWithoutAColorOneOfTheirOwn) {
  LabelColors colors;
  colors.Set(3, 0x0082C8);
  EXPECT_EQ(colors.Of(3), (Color{0, 130, 200}));
  EXPECT_EQ(colors.Of(7), colors.Of(7));
  EXPECT_GE(Difference(colors.Of(7), colors.Of(8)), 60);
}

}  // namespace
}  // namespace deform::client
