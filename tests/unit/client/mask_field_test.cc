#include "drawing/mask_field.h"

#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

Mask FromRows(const std::vector<std::string>& rows) {
  Mask mask{static_cast<int>(rows[0].size()), static_cast<int>(rows.size()), {}};
  for (const std::string& row : rows) {
    for (const char c : row) mask.inside.push_back(c == '#');
  }
  return mask;
}

// A square of side `side` at (left, top).
Mask Square(int width, int height, int left, int top, int side) {
  Mask mask{width, height, std::vector<uint8_t>(width * height, 0)};
  for (int y = top; y < top + side; ++y) {
    for (int x = left; x < left + side; ++x) mask.inside[y * width + x] = 1;
  }
  return mask;
}

TEST(PlaceMask, IsTheMaskItselfAtFactorOne) {
  const MaskField field = PlaceMask(FromRows({".....", "..##.", "...#."}), 1);
  EXPECT_EQ(field.bounds.left, 2);
  EXPECT_EQ(field.bounds.top, 1);
  EXPECT_THAT(field.coverage, testing::ElementsAre(1, 1, 0, 1));
  EXPECT_EQ(field.At(3, 2), 1);
  EXPECT_EQ(field.At(2, 2), 0);
  EXPECT_EQ(field.At(0, 0), 0);
}

TEST(PlaceMask, OfAnEmptyMaskIsEmpty) {
  EXPECT_EQ(PlaceMask(FromRows({"..", ".."}), 3).bounds.width, 0);
}

TEST(PlaceMask, EnlargesTheAreaByTheSquareOfTheFactor) {
  const MaskField field = PlaceMask(Square(40, 30, 5, 7, 12), 6);
  const float area = std::accumulate(field.coverage.begin(), field.coverage.end(), 0.0f);
  EXPECT_NEAR(area, 12 * 12 * 36, 0.01 * 12 * 12 * 36);  // corners are rounded off
  EXPECT_EQ(field.At(5 * 6, 13 * 6), 1);                 // a straight edge stays where it was
  EXPECT_EQ(field.At(5 * 6 - 1, 13 * 6), 0);
}

TEST(EdgeCoverage, IsTwoPixelsWideAlongTheInside) {
  const MaskField field = PlaceMask(Square(40, 30, 5, 7, 12), 1);
  const std::vector<float> edge = EdgeCoverage(field, 2, 40, 30);
  const auto middle_row = edge.begin() + 6 * 12;
  EXPECT_THAT(std::vector<float>(middle_row, middle_row + 12),
              testing::ElementsAre(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1));
}

TEST(EdgeCoverage, LeavesTheBordersOfTheCanvasAlone) {
  const MaskField field = PlaceMask(Square(20, 20, 0, 0, 10), 1);
  const std::vector<float> edge = EdgeCoverage(field, 2, 20, 20);
  EXPECT_EQ(edge[5 * 10 + 0], 0);  // at the left border
  EXPECT_EQ(edge[0 * 10 + 5], 0);  // at the top
  EXPECT_EQ(edge[5 * 10 + 9], 1);  // at the mask's right edge
}

TEST(InnerPoints, StartWithTheMiddleOfTheWidestPart) {
  // A thin bar with a square at its right end.
  Mask mask = Square(60, 30, 40, 8, 15);
  for (int x = 2; x < 40; ++x) mask.inside[15 * 60 + x] = 1;
  const std::vector<MaskPoint> points = InnerPoints(PlaceMask(mask, 1));
  ASSERT_EQ(points.size(), 15u * 15u + 38u);
  EXPECT_EQ(points[0].x, 47);
  EXPECT_EQ(points[0].y, 15);
  EXPECT_NEAR(points[0].clearance, 8, 0.5);
}

TEST(InnerPoints, AreInsideTheMask) {
  const Mask ring = FromRows({"#####", "#...#", "#...#", "#####"});
  const std::vector<MaskPoint> points = InnerPoints(PlaceMask(ring, 1));
  EXPECT_EQ(points.size(), 14u);
  for (const MaskPoint& point : points) {
    EXPECT_TRUE(ring.Contains(point.x, point.y)) << point.x << ", " << point.y;
  }
}

}  // namespace
}  // namespace deform::client
