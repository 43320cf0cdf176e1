#include "drawing/overlay.h"

#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace deform::client {
namespace {

constexpr Color kGrey{100, 100, 100};
constexpr Color kRed{220, 20, 60};

Canvas Plain(int width, int height) {
  return Canvas(width, height, std::vector<uint8_t>(static_cast<size_t>(width) * height * 3, 100));
}

Mask Box(int width, int height, int left, int top, int box_width, int box_height) {
  Mask mask{width, height, std::vector<uint8_t>(static_cast<size_t>(width) * height, 0)};
  for (int y = top; y < top + box_height; ++y) {
    for (int x = left; x < left + box_width; ++x) mask.inside[y * width + x] = 1;
  }
  return mask;
}

Canvas DrawAll(const Canvas& picture, std::vector<OverlaySegment> segments) {
  absl::StatusOr<Overlay> overlay = Overlay::Begin(picture);
  EXPECT_TRUE(overlay.ok()) << overlay.status();
  for (const OverlaySegment& segment : segments) {
    const absl::Status drawn = overlay->Draw(segment);
    EXPECT_TRUE(drawn.ok()) << drawn;
  }
  return (*std::move(overlay)).Finish();
}

// How red a pixel is, from the grey of the picture (0) to the segment's colour (1).
double Redness(Color pixel) { return (pixel.red - 100) / 120.0; }

TEST(Overlay, TintsInsideAMaskAndTouchesNothingOutside) {
  const Canvas drawn = DrawAll(Plain(600, 400), {{.color = kRed,
                                                  .x = 100,
                                                  .y = 50,
                                                  .width = 200,
                                                  .height = 150,
                                                  .mask = Box(600, 400, 100, 50, 200, 150)}});
  ASSERT_EQ(drawn.width(), 600);
  for (int y = 0; y < 400; ++y) {
    for (int x = 0; x < 600; ++x) {
      const bool inside = x >= 100 && x < 300 && y >= 50 && y < 200;
      if (inside) {
        ASSERT_GT(Redness(drawn.At(x, y)), 0.3) << x << ", " << y;
      } else {
        ASSERT_EQ(drawn.At(x, y), kGrey) << x << ", " << y;
      }
    }
  }
}

TEST(Overlay, DrawsALineOfTwoPixelsInsideTheEdgeOfAMask) {
  const Canvas drawn = DrawAll(Plain(600, 400), {{.color = kRed,
                                                  .x = 100,
                                                  .y = 50,
                                                  .width = 200,
                                                  .height = 150,
                                                  .mask = Box(600, 400, 100, 50, 200, 150)}});
  for (const int x : {100, 101, 298, 299}) EXPECT_GT(Redness(drawn.At(x, 120)), 0.9) << x;
  for (const int x : {102, 200, 297}) EXPECT_LT(Redness(drawn.At(x, 120)), 0.6) << x;
}

TEST(Overlay, DrawsGroundFainterThanThings) {
  OverlaySegment segment{
      .color = kRed, .width = 600, .height = 400, .mask = Box(600, 400, 0, 0, 600, 400)};
  const Canvas thing = DrawAll(Plain(600, 400), {segment});
  segment.is_ground = true;
  const Canvas ground = DrawAll(Plain(600, 400), {segment});
  EXPECT_LT(Redness(ground.At(300, 200)), Redness(thing.At(300, 200)));
  EXPECT_GT(Redness(ground.At(300, 200)), 0.2);
}

TEST(Overlay, DrawsTheBoxWhereThereIsNoMask) {
  const Canvas drawn =
      DrawAll(Plain(600, 400), {{.color = kRed, .x = 100, .y = 50, .width = 200, .height = 150}});
  EXPECT_GT(Redness(drawn.At(100, 120)), 0.9);
  EXPECT_GT(Redness(drawn.At(299, 120)), 0.9);
  EXPECT_EQ(drawn.At(200, 120), kGrey);
  EXPECT_EQ(drawn.At(98, 120), kGrey);
}

TEST(Overlay, EnlargesSmallPicturesByAWholeFactor) {
  const auto factor = [](int width, int height) {
    return Overlay::Begin(Plain(width, height))->factor();
  };
  EXPECT_EQ(factor(96, 64), 6);
  EXPECT_EQ(factor(256, 256), 2);
  EXPECT_EQ(factor(300, 511), 2);
  EXPECT_EQ(factor(300, 512), 1);
  EXPECT_EQ(factor(4000, 10), 1);
  EXPECT_EQ(factor(1, 1), 512);

  const Canvas drawn = DrawAll(Plain(96, 64), {{.color = kRed,
                                                .x = 10,
                                                .y = 20,
                                                .width = 30,
                                                .height = 20,
                                                .mask = Box(96, 64, 10, 20, 30, 20)}});
  ASSERT_EQ(drawn.width(), 576);
  ASSERT_EQ(drawn.height(), 384);
  EXPECT_GT(Redness(drawn.At(25 * 6, 30 * 6)), 0.3);
  EXPECT_EQ(drawn.At(9 * 6, 30 * 6), kGrey);
  EXPECT_EQ(drawn.At(41 * 6, 30 * 6), kGrey);
}

// The smallest rectangle of pixels that differ from the plain picture.
PixelRect Changed(const Canvas& canvas) {
  int left = canvas.width(), top = canvas.height(), right = -1, bottom = -1;
  for (int y = 0; y < canvas.height(); ++y) {
    for (int x = 0; x < canvas.width(); ++x) {
      if (canvas.At(x, y) == kGrey) continue;
      left = std::min(left, x);
      right = std::max(right, x);
      top = std::min(top, y);
      bottom = std::max(bottom, y);
    }
  }
  return {left, top, right - left + 1, bottom - top + 1};
}

TEST(Overlay, WritesTheLabelInWhiteOnAChipOfTheSegmentsColor) {
  // An empty mask leaves nothing to see but the label.
  const Canvas drawn = DrawAll(Plain(600, 400), {{.text = "disk 0.97",
                                                  .color = kRed,
                                                  .x = 200,
                                                  .y = 200,
                                                  .width = 10,
                                                  .height = 10,
                                                  .mask = Box(600, 400, 0, 0, 0, 0)}});
  const PixelRect chip = Changed(drawn);
  EXPECT_GT(chip.width, 3 * chip.height);
  EXPECT_GE(chip.height, 14);
  EXPECT_LE(chip.top + chip.height, 200);  // above the box
  int of_chip = 0, of_text = 0;
  for (int y = chip.top; y < chip.top + chip.height; ++y) {
    for (int x = chip.left; x < chip.left + chip.width; ++x) {
      const Color pixel = drawn.At(x, y);
      if (Redness(pixel) > 0.85 && pixel.green < 40) ++of_chip;
      if (pixel.green > 230) ++of_text;
    }
  }
  const int area = chip.width * chip.height;
  EXPECT_GT(of_chip, area / 3);
  EXPECT_GT(of_text, area / 20);
  EXPECT_LT(of_text, area / 2);
}

TEST(Overlay, ShortensLabelsThatAreWiderThanThePicture) {
  const Canvas drawn =
      DrawAll(Plain(600, 400),
              {{.text = std::string(300, 'w'), .color = kRed, .mask = Box(600, 400, 0, 0, 0, 0)}});
  const PixelRect chip = Changed(drawn);
  EXPECT_GT(chip.width, 500);
  EXPECT_LE(chip.height, 30);
}

TEST(Overlay, KeepsLabelsOfCrowdedSegmentsApart) {
  // Nine segments on one spot; their chips, counted in pixels, must all be seen in full.
  std::vector<OverlaySegment> segments;
  for (int i = 0; i < 9; ++i) {
    segments.push_back({.text = "ring 0.50",
                        .color = Color{220, 20, static_cast<uint8_t>(60 + i)},
                        .x = 300,
                        .y = 200,
                        .width = 8,
                        .height = 8,
                        .mask = Box(600, 400, 0, 0, 0, 0)});
  }
  const auto changed_pixels = [](const Canvas& canvas) {
    int changed = 0;
    for (int y = 0; y < canvas.height(); ++y) {
      for (int x = 0; x < canvas.width(); ++x) changed += canvas.At(x, y) != kGrey;
    }
    return changed;
  };
  const int one = changed_pixels(DrawAll(Plain(600, 400), {segments[0]}));
  EXPECT_EQ(changed_pixels(DrawAll(Plain(600, 400), segments)), 9 * one);
}

TEST(Overlay, PutsTheLabelOfALargeObjectInsideItsMask) {
  const Canvas drawn = DrawAll(Plain(600, 400), {{.text = "disk 0.97",
                                                  .color = kRed,
                                                  .x = 200,
                                                  .y = 100,
                                                  .width = 200,
                                                  .height = 200,
                                                  .mask = Box(600, 400, 200, 100, 200, 200)}});
  const PixelRect changed = Changed(drawn);
  EXPECT_EQ(changed.left, 200);
  EXPECT_EQ(changed.top, 100);
  EXPECT_EQ(changed.width, 200);
  EXPECT_EQ(changed.height, 200);
}

TEST(Overlay, ShowsTextThatIsntUtf8) {
  const Canvas drawn =
      DrawAll(Plain(600, 400),
              {{.text = "\xff\xc3(\xe2\x82", .color = kRed, .mask = Box(600, 400, 0, 0, 0, 0)}});
  EXPECT_GT(Changed(drawn).width, 20);
}

TEST(Overlay, RefusesAMaskOfAnotherSize) {
  absl::StatusOr<Overlay> overlay = Overlay::Begin(Plain(600, 400));
  ASSERT_TRUE(overlay.ok());
  EXPECT_FALSE(overlay->Draw({.color = kRed, .mask = Box(400, 600, 0, 0, 5, 5)}).ok());
}

}  // namespace
}  // namespace deform::client
