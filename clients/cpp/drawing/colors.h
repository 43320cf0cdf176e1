#pragma once

#include <cstdint>
#include <map>

namespace deform::client {

struct Color {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  friend bool operator==(const Color&, const Color&) = default;
};

// 0xRRGGBB.
Color ColorFromRgb24(uint32_t rgb);

// The colour of the index-th instance of a class: the class's own for 0, then shades of it that
// stay near its hue and differ in lightness and hue, so that neighbours can be told apart.
Color InstanceShade(Color label_color, int index);

// Black or white, whichever can be read better on `background` (WCAG relative luminance).
Color ReadableTextColor(Color background);

// Colours of the classes of one model. A class the model gave no colour gets one from its id.
class LabelColors {
 public:
  // REQUIRES: rgb is 0xRRGGBB.
  void Set(int32_t label_id, uint32_t rgb);
  Color Of(int32_t label_id) const;

 private:
  std::map<int32_t, Color> colors_;
};

}  // namespace deform::client
