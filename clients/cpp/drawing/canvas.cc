#include "drawing/canvas.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace deform::client {
namespace {

// Signed distance from (x, y) to a rectangle with rounded corners around (centre_x, centre_y).
float RoundedRectDistance(float x, float y, float half_width, float half_height, float radius) {
  const float dx = std::abs(x) - (half_width - radius);
  const float dy = std::abs(y) - (half_height - radius);
  const float outside = std::hypot(std::max(dx, 0.0f), std::max(dy, 0.0f));
  return outside + std::min(std::max(dx, dy), 0.0f) - radius;
}

// Weights of the four neighbours of a point `t` past the second of them.
std::array<float, 4> CatmullRom(float t) {
  return {((-0.5f * t + 1.0f) * t - 0.5f) * t, (1.5f * t - 2.5f) * t * t + 1.0f,
          ((-1.5f * t + 2.0f) * t + 0.5f) * t, (0.5f * t - 0.5f) * t * t};
}

// One enlarged axis: for each new position the first of four neighbours and their weights.
struct Tap {
  int first;
  std::array<float, 4> weights;
};

std::vector<Tap> EnlargedAxis(int size, int factor) {
  std::vector<Tap> taps;
  taps.reserve(static_cast<size_t>(size) * factor);
  for (int i = 0; i < size * factor; ++i) {
    const float position = (i + 0.5f) / factor - 0.5f;
    const float floor = std::floor(position);
    taps.push_back({static_cast<int>(floor) - 1, CatmullRom(position - floor)});
  }
  return taps;
}

uint8_t ToSample(float value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0f, 255.0f)));
}

}  // namespace

Canvas::Canvas(int width, int height, std::vector<uint8_t> rgb)
    : width_(width), height_(height), rgb_(std::move(rgb)) {}

Color Canvas::At(int x, int y) const {
  const uint8_t* pixel = &rgb_[(static_cast<size_t>(y) * width_ + x) * 3];
  return {pixel[0], pixel[1], pixel[2]};
}

void Canvas::Blend(int x, int y, Color color, float opacity) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_ || opacity <= 0) return;
  uint8_t* pixel = &rgb_[(static_cast<size_t>(y) * width_ + x) * 3];
  const auto mix = [&](uint8_t under, uint8_t over) {
    return ToSample(under + (over - under) * std::min(opacity, 1.0f));
  };
  pixel[0] = mix(pixel[0], color.red);
  pixel[1] = mix(pixel[1], color.green);
  pixel[2] = mix(pixel[2], color.blue);
}

template <typename Shape>
void Canvas::BlendRoundedRect(const PixelRect& rect, float radius, Color color, float opacity,
                              Shape shape) {
  const float half_width = rect.width / 2.0f;
  const float half_height = rect.height / 2.0f;
  radius = std::min({radius, half_width, half_height});
  for (int y = std::max(rect.top, 0); y < std::min(rect.top + rect.height, height_); ++y) {
    for (int x = std::max(rect.left, 0); x < std::min(rect.left + rect.width, width_); ++x) {
      const float distance =
          RoundedRectDistance(x + 0.5f - rect.left - half_width, y + 0.5f - rect.top - half_height,
                              half_width, half_height, radius);
      Blend(x, y, color, opacity * std::clamp(shape(distance), 0.0f, 1.0f));
    }
  }
}

void Canvas::FillRoundedRect(const PixelRect& rect, float radius, Color color, float opacity) {
  BlendRoundedRect(rect, radius, color, opacity, [](float distance) { return 0.5f - distance; });
}

void Canvas::OutlineRoundedRect(const PixelRect& rect, float radius, float line_width, Color color,
                                float opacity) {
  BlendRoundedRect(rect, radius, color, opacity, [=](float distance) {
    return std::min(0.5f - distance, line_width + distance + 0.5f);
  });
}

Canvas Enlarge(const Canvas& canvas, int factor) {
  if (factor == 1) return canvas;
  const std::vector<Tap> columns = EnlargedAxis(canvas.width(), factor);
  const std::vector<Tap> rows = EnlargedAxis(canvas.height(), factor);
  const int width = static_cast<int>(columns.size());
  const int height = static_cast<int>(rows.size());

  std::vector<float> wide(static_cast<size_t>(width) * canvas.height() * 3, 0.0f);
  for (int y = 0; y < canvas.height(); ++y) {
    for (int x = 0; x < width; ++x) {
      float* into = &wide[(static_cast<size_t>(y) * width + x) * 3];
      for (int tap = 0; tap < 4; ++tap) {
        const int from = std::clamp(columns[x].first + tap, 0, canvas.width() - 1);
        const Color color = canvas.At(from, y);
        const float weight = columns[x].weights[tap];
        into[0] += weight * color.red;
        into[1] += weight * color.green;
        into[2] += weight * color.blue;
      }
    }
  }
  std::vector<uint8_t> rgb(static_cast<size_t>(width) * height * 3);
  const size_t row_samples = static_cast<size_t>(width) * 3;
  for (int y = 0; y < height; ++y) {
    for (size_t sample = 0; sample < row_samples; ++sample) {
      float value = 0;
      for (int tap = 0; tap < 4; ++tap) {
        const int from = std::clamp(rows[y].first + tap, 0, canvas.height() - 1);
        value += rows[y].weights[tap] * wide[from * row_samples + sample];
      }
      rgb[y * row_samples + sample] = ToSample(value);
    }
  }
  return Canvas(width, height, std::move(rgb));
}

}  // namespace deform::client
