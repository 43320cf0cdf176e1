#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drawing/canvas.h"
#include "drawing/label_font.h"
#include "drawing/label_layout.h"
#include "results/mask.h"

namespace deform::client {

// What is drawn for one segment, in the picture's pixels.
struct OverlaySegment {
  std::string text{};  // "disk 0.97"; empty: no label
  Color color{};
  float x = 0;  // bounding box
  float y = 0;
  float width = 0;
  float height = 0;
  bool is_ground = false;      // drawn fainter, so that what stands on it stands out
  std::optional<Mask> mask{};  // absent: the box is drawn instead
};

// Draws segments over a picture: each mask tinted and outlined inside its edge, each box without a
// mask outlined, and at the end a label for each on a chip of its colour. Nothing outside of masks,
// box outlines and chips is touched, but pictures below 512 pixels are enlarged by a whole factor
// first, so that labels fit. Use: Begin, Draw for each segment (the larger first: later ones lie
// on top), Finish.
class Overlay {
 public:
  // REQUIRES: picture isn't empty.
  static absl::StatusOr<Overlay> Begin(const Canvas& picture);

  // How many times larger than the picture the canvas is.
  int factor() const { return factor_; }

  // INVALID_ARGUMENT when the mask isn't of the picture's size.
  absl::Status Draw(const OverlaySegment& segment);

  // Draws the labels and gives the canvas away.
  Canvas Finish() &&;

 private:
  struct Label {
    std::string text;
    Color color;
    float area = 0;
    LabelWish wish;
  };

  Overlay(Canvas canvas, int factor, LabelFont font, int font_size);

  void DrawMask(const OverlaySegment& segment, LabelWish& wish);
  void DrawBox(const OverlaySegment& segment);

  Canvas canvas_;
  int factor_;
  LabelFont font_;
  int padding_;  // between text and chip
  float line_width_;
  std::vector<Label> labels_;
};

}  // namespace deform::client
