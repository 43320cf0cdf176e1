#include "drawing/colors.h"

#include <algorithm>
#include <cmath>

namespace deform::client {
namespace {

struct Hsl {
  float hue = 0;  // turns, [0, 1)
  float saturation = 0;
  float lightness = 0;
};

Hsl ToHsl(Color color) {
  const float red = color.red / 255.0f;
  const float green = color.green / 255.0f;
  const float blue = color.blue / 255.0f;
  const float most = std::max({red, green, blue});
  const float least = std::min({red, green, blue});
  const float chroma = most - least;
  Hsl hsl{0, 0, (most + least) / 2};
  if (chroma <= 0) return hsl;
  hsl.saturation = chroma / (1 - std::abs(2 * hsl.lightness - 1));
  if (most == red) {
    hsl.hue = (green - blue) / chroma;
  } else if (most == green) {
    hsl.hue = (blue - red) / chroma + 2;
  } else {
    hsl.hue = (red - green) / chroma + 4;
  }
  hsl.hue /= 6;
  hsl.hue -= std::floor(hsl.hue);
  return hsl;
}

Color ToColor(const Hsl& hsl) {
  const float amplitude = hsl.saturation * std::min(hsl.lightness, 1 - hsl.lightness);
  const auto channel = [&](float offset) {
    const float position = std::fmod(offset + hsl.hue * 12, 12.0f);
    const float level =
        hsl.lightness - amplitude * std::clamp(std::min(position - 3, 9 - position), -1.0f, 1.0f);
    return static_cast<uint8_t>(std::lround(std::clamp(level, 0.0f, 1.0f) * 255));
  };
  return {channel(0), channel(8), channel(4)};
}

float Luminance(Color color) {
  const auto linear = [](uint8_t sample) {
    const float value = sample / 255.0f;
    return value <= 0.04045f ? value / 12.92f : std::pow((value + 0.055f) / 1.055f, 2.4f);
  };
  return 0.2126f * linear(color.red) + 0.7152f * linear(color.green) + 0.0722f * linear(color.blue);
}

// Multiples of the golden ratio spread over [0, 1) without ever meeting.
float Spread(int index) {
  const double position = index * 0.6180339887498949;
  return static_cast<float>(position - std::floor(position));
}

}  // namespace

Color ColorFromRgb24(uint32_t rgb) {
  return {static_cast<uint8_t>(rgb >> 16), static_cast<uint8_t>(rgb >> 8),
          static_cast<uint8_t>(rgb)};
}

Color InstanceShade(Color label_color, int index) {
  if (index == 0) return label_color;
  constexpr float kHueRange = 0.10f;  // turns from end to end
  constexpr float kLightnessRange = 0.34f;
  Hsl hsl = ToHsl(label_color);
  hsl.hue += (Spread(2 * index) - 0.5f) * kHueRange;
  hsl.hue -= std::floor(hsl.hue);
  // The range is moved so that it stays where a colour can still be seen as one.
  const float middle =
      std::clamp(hsl.lightness, 0.30f + kLightnessRange / 2, 0.78f - kLightnessRange / 2);
  hsl.lightness = middle + (Spread(index) - 0.5f) * kLightnessRange;
  return ToColor(hsl);
}

Color ReadableTextColor(Color background) {
  const float luminance = Luminance(background);
  const float on_white = 1.05f / (luminance + 0.05f);
  const float on_black = (luminance + 0.05f) / 0.05f;
  return on_white >= on_black ? Color{255, 255, 255} : Color{0, 0, 0};
}

void LabelColors::Set(int32_t label_id, uint32_t rgb) { colors_[label_id] = ColorFromRgb24(rgb); }

Color LabelColors::Of(int32_t label_id) const {
  const auto found = colors_.find(label_id);
  if (found != colors_.end()) return found->second;
  return ToColor({Spread(std::abs(label_id)), 0.70f, 0.55f});
}

}  // namespace deform::client
