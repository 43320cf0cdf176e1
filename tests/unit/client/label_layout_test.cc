#include "drawing/label_layout.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"

namespace deform::client {
namespace {

bool Overlap(const PixelRect& a, const PixelRect& b) {
  return a.left < b.left + b.width && b.left < a.left + a.width && a.top < b.top + b.height &&
         b.top < a.top + a.height;
}

bool IsInside(const PixelRect& rect, int width, int height) {
  return rect.left >= 0 && rect.top >= 0 && rect.left + rect.width <= width &&
         rect.top + rect.height <= height;
}

TEST(PlaceLabels, GivesTheFirstWishWhereItIsFree) {
  const auto rects = PlaceLabels({{50, 10, {{20, 30}, {0, 0}}}}, 200, 100, 2);
  ASSERT_EQ(rects.size(), 1u);
  EXPECT_EQ(rects[0].left, 20);
  EXPECT_EQ(rects[0].top, 30);
}

TEST(PlaceLabels, GivesTheNextWishWhereTheFirstIsTaken) {
  const auto rects =
      PlaceLabels({{50, 10, {{20, 30}}}, {50, 10, {{25, 32}, {100, 60}}}}, 200, 100, 2);
  EXPECT_EQ(rects[1].left, 100);
  EXPECT_EQ(rects[1].top, 60);
}

TEST(PlaceLabels, KeepsTheGap) {
  const auto rects =
      PlaceLabels({{50, 10, {{20, 30}}}, {50, 10, {{20, 41}, {20, 42}}}}, 200, 100, 2);
  EXPECT_EQ(rects[1].top, 42);
}

TEST(PlaceLabels, PushesLabelsInsideTheCanvas) {
  const auto rects = PlaceLabels({{50, 10, {{180, -4}}}}, 200, 100, 2);
  EXPECT_TRUE(IsInside(rects[0], 200, 100));
}

TEST(PlaceLabels, SpreadsLabelsThatAllWantOnePlace) {
  const std::vector<LabelWish> wishes(40, LabelWish{40, 12, {{180, 140}}});
  const auto rects = PlaceLabels(wishes, 400, 300, 2);
  ASSERT_EQ(rects.size(), 40u);
  for (size_t a = 0; a < rects.size(); ++a) {
    EXPECT_TRUE(IsInside(rects[a], 400, 300));
    for (size_t b = a + 1; b < rects.size(); ++b) EXPECT_FALSE(Overlap(rects[a], rects[b]));
  }
}

TEST(PlaceLabels, PlacesLabelsThatFindNoRoomAllTheSame) {
  const std::vector<LabelWish> wishes(30, LabelWish{40, 12, {{5, 5}}});
  const auto rects = PlaceLabels(wishes, 60, 40, 2);
  ASSERT_EQ(rects.size(), 30u);
  for (const PixelRect& rect : rects) EXPECT_TRUE(IsInside(rect, 60, 40));
}

}  // namespace
}  // namespace deform::client
