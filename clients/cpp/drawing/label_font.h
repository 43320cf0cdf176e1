#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "drawing/canvas.h"

struct FT_LibraryRec_;
struct FT_FaceRec_;

namespace deform::client {

// The font of the labels (DejaVu Sans Bold, part of the binary, so that no font has to be
// installed) at one size. Not thread-safe: one for each thread.
class LabelFont {
 public:
  static absl::StatusOr<LabelFont> Create(int pixel_size);

  // Pixels from the first to the last pen position. Bytes that aren't UTF-8 show as U+FFFD.
  int Width(std::string_view text) const;
  // Pixels of a capital letter above the baseline: what centres a line to the eye.
  int cap_height() const { return cap_height_; }

  // Draws one line, its first letter starting at `x`, its feet on `baseline`.
  void Draw(Canvas& canvas, int x, int baseline, std::string_view text, Color color) const;

  // `text`, or as much of it as fits in `width` pixels with an ellipsis.
  std::string Shorten(std::string_view text, int width) const;

 private:
  struct FreeLibrary {
    void operator()(FT_LibraryRec_* library) const;
  };
  struct FreeFace {
    void operator()(FT_FaceRec_* face) const;
  };

  LabelFont() = default;

  // The library outlives the face.
  std::unique_ptr<FT_LibraryRec_, FreeLibrary> library_;
  std::unique_ptr<FT_FaceRec_, FreeFace> face_;
  int cap_height_ = 0;
};

}  // namespace deform::client
