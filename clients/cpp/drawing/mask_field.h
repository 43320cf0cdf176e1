#pragma once

#include <optional>
#include <vector>

#include "drawing/canvas.h"
#include "results/mask.h"

namespace deform::client {

// A mask as it lies on a canvas `factor` times as large as the picture, cut to its bounding box.
struct MaskField {
  PixelRect bounds;  // on the canvas; empty for an empty mask
  // [bounds.height, bounds.width]: how much of each canvas pixel is inside, 0 to 1; fractions stand
  // on smooth edges of enlarged masks only.
  std::vector<float> coverage;

  float At(int x, int y) const;  // canvas pixels; 0 outside of bounds
};

MaskField PlaceMask(const Mask& mask, int factor);

// How much of each pixel of the field belongs to a line of `line_width` pixels along the inside of
// the mask's edge, 0 to 1. The canvas's own border is no edge.
std::vector<float> EdgeCoverage(const MaskField& field, float line_width, int canvas_width,
                                int canvas_height);

struct MaskPoint {
  int x = 0;  // canvas pixels
  int y = 0;
  float clearance = 0;  // about how far the mask's edge is, in pixels
};

// Points inside the mask on a coarse grid, the one farthest from the edge first. Empty for an empty
// mask.
std::vector<MaskPoint> InnerPoints(const MaskField& field);

}  // namespace deform::client
