#include "drawing/mask_field.h"

#include <algorithm>
#include <cmath>

namespace deform::client {
namespace {

// Bounding box of a mask, in pixels of the mask.
PixelRect BoundsOf(const Mask& mask) {
  int left = mask.width, right = -1, top = mask.height, bottom = -1;
  for (int y = 0; y < mask.height; ++y) {
    for (int x = 0; x < mask.width; ++x) {
      if (!mask.Contains(x, y)) continue;
      left = std::min(left, x);
      right = std::max(right, x);
      top = std::min(top, y);
      bottom = y;
    }
  }
  if (right < 0) return {};
  return {left, top, right - left + 1, bottom - top + 1};
}

constexpr int kGridCells = 192;  // along the longer side, for label places

}  // namespace

float MaskField::At(int x, int y) const {
  x -= bounds.left;
  y -= bounds.top;
  if (x < 0 || y < 0 || x >= bounds.width || y >= bounds.height) return 0;
  return coverage[static_cast<size_t>(y) * bounds.width + x];
}

MaskField PlaceMask(const Mask& mask, int factor) {
  PixelRect box = BoundsOf(mask);
  MaskField field;
  if (box.width == 0) return field;
  field.bounds = {box.left * factor, box.top * factor, box.width * factor, box.height * factor};
  field.coverage.resize(static_cast<size_t>(field.bounds.width) * field.bounds.height);
  if (factor == 1) {
    float* coverage = field.coverage.data();
    for (int y = box.top; y < box.top + box.height; ++y) {
      for (int x = box.left; x < box.left + box.width; ++x) *coverage++ = mask.Contains(x, y);
    }
    return field;
  }
  const auto inside = [&](int x, int y) {
    return static_cast<float>(
        mask.Contains(std::clamp(x, 0, mask.width - 1), std::clamp(y, 0, mask.height - 1)));
  };
  float* coverage = field.coverage.data();
  for (int y = 0; y < field.bounds.height; ++y) {
    const float v = (field.bounds.top + y + 0.5f) / factor - 0.5f;
    const int above = static_cast<int>(std::floor(v));
    const float down = v - above;
    for (int x = 0; x < field.bounds.width; ++x) {
      const float u = (field.bounds.left + x + 0.5f) / factor - 0.5f;
      const int left = static_cast<int>(std::floor(u));
      const float right = u - left;
      const float level =
          (1 - down) * ((1 - right) * inside(left, above) + right * inside(left + 1, above)) +
          down * ((1 - right) * inside(left, above + 1) + right * inside(left + 1, above + 1));
      // `level` crosses 0.5 at the edge and changes by about 1 / factor a canvas pixel there.
      *coverage++ = std::clamp((level - 0.5f) * factor + 0.5f, 0.0f, 1.0f);
    }
  }
  return field;
}

std::vector<float> EdgeCoverage(const MaskField& field, float line_width, int canvas_width,
                                int canvas_height) {
  const PixelRect& bounds = field.bounds;
  const int reach = static_cast<int>(std::ceil(line_width)) + 1;
  std::vector<float> distance(field.coverage.size(), static_cast<float>(reach + 1));
  const auto is_inside = [&](int x, int y) { return field.At(x, y) >= 0.5f; };

  // Each outside pixel at the edge tells the pixels around it how near the edge is.
  for (int y = std::max(bounds.top - 1, 0);
       y < std::min(bounds.top + bounds.height + 1, canvas_height); ++y) {
    for (int x = std::max(bounds.left - 1, 0);
         x < std::min(bounds.left + bounds.width + 1, canvas_width); ++x) {
      if (is_inside(x, y)) continue;
      if (!is_inside(x - 1, y) && !is_inside(x + 1, y) && !is_inside(x, y - 1) &&
          !is_inside(x, y + 1)) {
        continue;
      }
      for (int dy = -reach; dy <= reach; ++dy) {
        const int row = y + dy - bounds.top;
        if (row < 0 || row >= bounds.height) continue;
        for (int dx = -reach; dx <= reach; ++dx) {
          const int column = x + dx - bounds.left;
          if (column < 0 || column >= bounds.width) continue;
          float& nearest = distance[static_cast<size_t>(row) * bounds.width + column];
          nearest = std::min(nearest, std::hypot(static_cast<float>(dx), static_cast<float>(dy)));
        }
      }
    }
  }
  std::vector<float> edge(field.coverage.size());
  for (size_t i = 0; i < edge.size(); ++i) {
    edge[i] = field.coverage[i] * std::clamp(line_width + 1 - distance[i], 0.0f, 1.0f);
  }
  return edge;
}

std::vector<MaskPoint> InnerPoints(const MaskField& field) {
  const PixelRect& bounds = field.bounds;
  if (bounds.width == 0) return {};
  const int step = std::max(1, std::max(bounds.width, bounds.height) / kGridCells);
  const int columns = (bounds.width + step - 1) / step;
  const int rows = (bounds.height + step - 1) / step;
  const auto canvas_x = [&](int column) {
    return bounds.left + std::min(column * step + step / 2, bounds.width - 1);
  };
  const auto canvas_y = [&](int row) {
    return bounds.top + std::min(row * step + step / 2, bounds.height - 1);
  };

  // Two-pass chamfer distance over a grid with a border of outside cells.
  const int stride = columns + 2;
  std::vector<float> clearance(static_cast<size_t>(stride) * (rows + 2), 0.0f);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      if (field.At(canvas_x(column), canvas_y(row)) < 0.5f) continue;
      clearance[(row + 1) * stride + column + 1] = static_cast<float>(columns + rows);
    }
  }
  constexpr float kDiagonal = 1.414f;
  const auto relax = [&](int cell, int direction) {
    float& value = clearance[cell];
    value =
        std::min({value, clearance[cell + direction] + 1, clearance[cell + direction * stride] + 1,
                  clearance[cell + direction * (stride + 1)] + kDiagonal,
                  clearance[cell + direction * (stride - 1)] + kDiagonal});
  };
  for (int row = 1; row <= rows; ++row) {
    for (int column = 1; column <= columns; ++column) relax(row * stride + column, -1);
  }
  for (int row = rows; row >= 1; --row) {
    for (int column = columns; column >= 1; --column) relax(row * stride + column, 1);
  }

  std::vector<MaskPoint> points;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      const float cells = clearance[(row + 1) * stride + column + 1];
      if (cells > 0) points.push_back({canvas_x(column), canvas_y(row), cells * step});
    }
  }
  std::stable_sort(points.begin(), points.end(), [](const MaskPoint& a, const MaskPoint& b) {
    return a.clearance > b.clearance;
  });
  return points;
}

}  // namespace deform::client
