#include "drawing/canvas.h"

#include <vector>

#include "gtest/gtest.h"

namespace deform::client {
namespace {

constexpr Color kGrey{100, 100, 100};
constexpr Color kRed{200, 0, 0};

Canvas Plain(int width, int height, uint8_t level = 100) {
  return Canvas(width, height, std::vector<uint8_t>(width * height * 3, level));
}

TEST(Canvas, BlendMixesByOpacity) {
  Canvas canvas = Plain(2, 1);
  canvas.Blend(0, 0, kRed, 0.5f);
  EXPECT_EQ(canvas.At(0, 0), (Color{150, 50, 50}));
  EXPECT_EQ(canvas.At(1, 0), kGrey);
  canvas.Blend(1, 0, kRed, 1.0f);
  EXPECT_EQ(canvas.At(1, 0), kRed);
}

TEST(Canvas, DrawingOutsideIsCutOff) {
  Canvas canvas = Plain(3, 3);
  canvas.Blend(-1, 0, kRed, 1);
  canvas.Blend(0, 3, kRed, 1);
  EXPECT_EQ(canvas.rgb(), Plain(3, 3).rgb());
  canvas.FillRoundedRect({-5, -5, 20, 20}, 0, kRed, 1);
  EXPECT_EQ(canvas.At(0, 0), kRed);
  EXPECT_EQ(canvas.At(2, 2), kRed);
}

TEST(Canvas, RoundedRectFillsItsMiddleAndLeavesItsCorners) {
  Canvas canvas = Plain(30, 20);
  canvas.FillRoundedRect({5, 5, 20, 10}, 4, kRed, 1);
  EXPECT_EQ(canvas.At(15, 10), kRed);
  EXPECT_EQ(canvas.At(15, 5), kRed);   // along an edge
  EXPECT_EQ(canvas.At(5, 5), kGrey);   // in a corner
  EXPECT_EQ(canvas.At(4, 10), kGrey);  // beside it
  EXPECT_EQ(canvas.At(15, 15), kGrey);
}

TEST(Canvas, OutlineIsAsWideAsAskedAndLeavesTheMiddle) {
  Canvas canvas = Plain(30, 20);
  canvas.OutlineRoundedRect({5, 5, 20, 10}, 0, 2, kRed, 1);
  for (const int x : {5, 6}) EXPECT_EQ(canvas.At(x, 10), kRed);
  for (const int x : {4, 7, 15}) EXPECT_EQ(canvas.At(x, 10), kGrey);
}

TEST(Enlarge, KeepsPlainPicturesPlain) {
  const Canvas large = Enlarge(Plain(3, 2, 77), 5);
  EXPECT_EQ(large.width(), 15);
  EXPECT_EQ(large.height(), 10);
  EXPECT_EQ(large.rgb(), Plain(15, 10, 77).rgb());
}

TEST(Enlarge, KeepsEdgesWhereTheyAre) {
  std::vector<uint8_t> rgb(4 * 1 * 3, 0);
  for (int i = 6; i < 12; ++i) rgb[i] = 255;  // the right two of four pixels
  const Canvas large = Enlarge(Canvas(4, 1, rgb), 8);
  EXPECT_EQ(large.At(4, 0), (Color{0, 0, 0}));
  EXPECT_LT(large.At(15, 0).red, 128);
  EXPECT_GT(large.At(16, 0).red, 128);
  EXPECT_EQ(large.At(27, 0), (Color{255, 255, 255}));
}

}  // namespace
}  // namespace deform::client
