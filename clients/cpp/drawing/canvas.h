#pragma once

#include <cstdint>
#include <vector>

#include "drawing/colors.h"

namespace deform::client {

// Whole pixels of a canvas, [left, left + width) × [top, top + height).
struct PixelRect {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
};

// RGB pixels to draw on: 8 bits a channel, rows from top to bottom. Drawing outside is cut off.
class Canvas {
 public:
  // REQUIRES: rgb holds width × height × 3 samples.
  Canvas(int width, int height, std::vector<uint8_t> rgb);

  int width() const { return width_; }
  int height() const { return height_; }
  const std::vector<uint8_t>& rgb() const { return rgb_; }
  Color At(int x, int y) const;

  // Mixes `color` into one pixel; opacity 0 leaves it, 1 replaces it.
  void Blend(int x, int y, Color color, float opacity);
  // A filled rectangle with rounded, smooth corners.
  void FillRoundedRect(const PixelRect& rect, float radius, Color color, float opacity);
  // The outline of a rectangle, `line_width` pixels inwards.
  void OutlineRoundedRect(const PixelRect& rect, float radius, float line_width, Color color,
                          float opacity);

 private:
  // Calls Blend with opacity × coverage, where coverage is `shape` of the signed distance to the
  // rounded rectangle (negative inside).
  template <typename Shape>
  void BlendRoundedRect(const PixelRect& rect, float radius, Color color, float opacity,
                        Shape shape);

  int width_;
  int height_;
  std::vector<uint8_t> rgb_;
};

// The canvas `factor` times as large, smooth between pixels (Catmull-Rom). REQUIRES: factor >= 1.
Canvas Enlarge(const Canvas& canvas, int factor);

}  // namespace deform::client
