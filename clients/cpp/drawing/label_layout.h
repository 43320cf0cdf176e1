#pragma once

#include <vector>

#include "drawing/canvas.h"

namespace deform::client {

// One label that wants a place: its size and the places it would like, the best first.
struct LabelWish {
  int width = 0;
  int height = 0;
  struct Place {
    int left = 0;
    int top = 0;
  };
  std::vector<Place> places;  // at least one
};

// A place for each label, inside a canvas_width × canvas_height canvas where it fits at all. Labels
// are placed in order: at the first of its wishes that keeps `gap` pixels to those placed before,
// else at the free place nearest to its first wish, else where it covers least of the others.
std::vector<PixelRect> PlaceLabels(const std::vector<LabelWish>& wishes, int canvas_width,
                                   int canvas_height, int gap);

}  // namespace deform::client
