#include "drawing/label_layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace deform::client {
namespace {

// Pixels that two rectangles share when both keep `gap` pixels between them.
int64_t SharedArea(const PixelRect& a, const PixelRect& b, int gap) {
  const int width = std::min(a.left + a.width, b.left + b.width) - std::max(a.left, b.left) + gap;
  const int height = std::min(a.top + a.height, b.top + b.height) - std::max(a.top, b.top) + gap;
  return width > 0 && height > 0 ? static_cast<int64_t>(width) * height : 0;
}

class Placer {
 public:
  Placer(int canvas_width, int canvas_height, int gap)
      : canvas_width_(canvas_width), canvas_height_(canvas_height), gap_(gap) {}

  PixelRect Place(const LabelWish& wish) {
    PixelRect best;
    int64_t best_shared = std::numeric_limits<int64_t>::max();
    // True once a place without any overlap is found.
    const auto try_place = [&](int left, int top) {
      const PixelRect rect = PushedInside({left, top, wish.width, wish.height});
      const int64_t shared = Shared(rect);
      if (shared < best_shared) {
        best_shared = shared;
        best = rect;
      }
      return best_shared == 0;
    };
    for (const LabelWish::Place& place : wish.places) {
      if (try_place(place.left, place.top)) return Keep(best);
    }
    const LabelWish::Place& first = wish.places.front();
    // Rings of places around the first wish, one chip height apart.
    const int step = std::max(1, wish.height + gap_);
    const int rings = std::max(canvas_width_, canvas_height_) / step + 1;
    for (int ring = 1; ring <= rings; ++ring) {
      for (int side = -ring; side <= ring; ++side) {
        const int across = side * step;
        const int out = ring * step;
        if (try_place(first.left + across, first.top - out) ||
            try_place(first.left + across, first.top + out) ||
            try_place(first.left - out, first.top + across) ||
            try_place(first.left + out, first.top + across)) {
          return Keep(best);
        }
      }
    }
    return Keep(best);
  }

 private:
  PixelRect PushedInside(PixelRect rect) const {
    rect.left = std::max(0, std::min(rect.left, canvas_width_ - rect.width));
    rect.top = std::max(0, std::min(rect.top, canvas_height_ - rect.height));
    return rect;
  }

  int64_t Shared(const PixelRect& rect) const {
    int64_t shared = 0;
    for (const PixelRect& other : placed_) shared += SharedArea(rect, other, gap_);
    return shared;
  }

  PixelRect Keep(const PixelRect& rect) {
    placed_.push_back(rect);
    return rect;
  }

  int canvas_width_;
  int canvas_height_;
  int gap_;
  std::vector<PixelRect> placed_;
};

}  // namespace

std::vector<PixelRect> PlaceLabels(const std::vector<LabelWish>& wishes, int canvas_width,
                                   int canvas_height, int gap) {
  Placer placer(canvas_width, canvas_height, gap);
  std::vector<PixelRect> rects;
  rects.reserve(wishes.size());
  for (const LabelWish& wish : wishes) rects.push_back(placer.Place(wish));
  return rects;
}

}  // namespace deform::client
