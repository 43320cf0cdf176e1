#include "drawing/overlay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "drawing/mask_field.h"

namespace deform::client {
namespace {

constexpr int kSmallestSide = 512;  // of the longer side, pixels
constexpr float kFillOpacity = 0.42f;
constexpr float kLineOpacity = 0.95f;
constexpr float kGroundFillOpacity = 0.34f;
constexpr float kGroundLineOpacity = 0.50f;
constexpr float kChipOpacity = 0.90f;
constexpr size_t kPlacesInside = 24;  // tried within one mask

int FontSize(int longer_side) { return 13 + std::max(0, longer_side - kSmallestSide) / 110; }

float LineWidth(int longer_side) { return std::max(2.0f, longer_side / 640.0f); }

// Places around a box, above its left corner first.
void AddPlacesAround(const PixelRect& box, int gap, LabelWish& wish) {
  const int above = box.top - wish.height - gap;
  const int below = box.top + box.height + gap;
  const int centred = box.left + (box.width - wish.width) / 2;
  const int right_aligned = box.left + box.width - wish.width;
  const int beside = box.top + (box.height - wish.height) / 2;
  for (const int left : {centred, box.left, right_aligned}) {
    if (above >= 0) wish.places.push_back({left, above});
    wish.places.push_back({left, below});
  }
  wish.places.push_back({box.left + box.width + gap, beside});
  wish.places.push_back({box.left - wish.width - gap, beside});
}

// Places within the mask with room for a label, the roomiest first, well apart from each other.
void AddPlacesInside(const MaskField& field, LabelWish& wish) {
  const std::vector<MaskPoint> points = InnerPoints(field);
  std::vector<MaskPoint> taken;
  for (const MaskPoint& point : points) {
    // A label may stick out sideways, not cover the mask's whole height.
    if (point.clearance < 0.75f * wish.height && !taken.empty()) break;
    const bool apart = std::all_of(taken.begin(), taken.end(), [&](const MaskPoint& other) {
      return std::abs(point.x - other.x) > wish.width / 2 ||
             std::abs(point.y - other.y) > wish.height;
    });
    if (!apart) continue;
    taken.push_back(point);
    wish.places.push_back({point.x - wish.width / 2, point.y - wish.height / 2});
    if (taken.size() == kPlacesInside) break;
  }
}

}  // namespace

absl::StatusOr<Overlay> Overlay::Begin(const Canvas& picture) {
  const int longer_side = std::max(picture.width(), picture.height());
  const int factor = std::max(1, (kSmallestSide + longer_side - 1) / longer_side);
  const int font_size = FontSize(longer_side * factor);
  absl::StatusOr<LabelFont> font = LabelFont::Create(font_size);
  if (!font.ok()) return font.status();
  return Overlay(Enlarge(picture, factor), factor, *std::move(font), font_size);
}

Overlay::Overlay(Canvas canvas, int factor, LabelFont font, int font_size)
    : canvas_(std::move(canvas)),
      factor_(factor),
      font_(std::move(font)),
      padding_(std::max(3, font_size * 3 / 8)),
      line_width_(LineWidth(std::max(canvas_.width(), canvas_.height()))) {}

absl::Status Overlay::Draw(const OverlaySegment& segment) {
  if (segment.mask && (segment.mask->width * factor_ != canvas_.width() ||
                       segment.mask->height * factor_ != canvas_.height())) {
    return absl::InvalidArgumentError("a mask's size isn't the picture's");
  }
  Label label{font_.Shorten(segment.text, canvas_.width() - 2 * padding_),
              segment.color,
              segment.width * segment.height,
              {}};
  label.wish.width = font_.Width(label.text) + 2 * padding_;
  label.wish.height = font_.cap_height() + 2 * padding_;
  if (segment.mask) {
    DrawMask(segment, label.wish);
  } else {
    DrawBox(segment);
  }
  const PixelRect box{static_cast<int>(std::floor(segment.x * factor_)),
                      static_cast<int>(std::floor(segment.y * factor_)),
                      static_cast<int>(std::ceil(segment.width * factor_)),
                      static_cast<int>(std::ceil(segment.height * factor_))};
  AddPlacesAround(box, 1, label.wish);
  labels_.push_back(std::move(label));
  return absl::OkStatus();
}

void Overlay::DrawMask(const OverlaySegment& segment, LabelWish& wish) {
  const MaskField field = PlaceMask(*segment.mask, factor_);
  const PixelRect& bounds = field.bounds;
  if (bounds.width == 0) return;
  const std::vector<float> edge =
      EdgeCoverage(field, line_width_, canvas_.width(), canvas_.height());
  const float fill = segment.is_ground ? kGroundFillOpacity : kFillOpacity;
  const float line = segment.is_ground ? kGroundLineOpacity : kLineOpacity;
  size_t i = 0;
  for (int y = bounds.top; y < bounds.top + bounds.height; ++y) {
    for (int x = bounds.left; x < bounds.left + bounds.width; ++x, ++i) {
      if (field.coverage[i] == 0) continue;
      canvas_.Blend(x, y, segment.color, fill * field.coverage[i]);
      canvas_.Blend(x, y, segment.color, line * edge[i]);
    }
  }
  // A label that would hide much of its object goes beside it.
  if (bounds.width >= 1.3f * wish.width && bounds.height >= 4 * wish.height) {
    AddPlacesInside(field, wish);
  }
}

void Overlay::DrawBox(const OverlaySegment& segment) {
  const int left = static_cast<int>(std::floor(segment.x * factor_));
  const int top = static_cast<int>(std::floor(segment.y * factor_));
  const int right = static_cast<int>(std::ceil((segment.x + segment.width) * factor_));
  const int bottom = static_cast<int>(std::ceil((segment.y + segment.height) * factor_));
  canvas_.OutlineRoundedRect({left, top, right - left, bottom - top}, 0, line_width_, segment.color,
                             kLineOpacity);
}

Canvas Overlay::Finish() && {
  // Small objects have the fewest places near them, so theirs are chosen first.
  std::stable_sort(labels_.begin(), labels_.end(),
                   [](const Label& a, const Label& b) { return a.area < b.area; });
  std::vector<LabelWish> wishes;
  wishes.reserve(labels_.size());
  for (Label& label : labels_) wishes.push_back(std::move(label.wish));
  const std::vector<PixelRect> chips = PlaceLabels(wishes, canvas_.width(), canvas_.height(), 2);
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (labels_[i].text.empty()) continue;
    const PixelRect& chip = chips[i];
    canvas_.FillRoundedRect(chip, padding_ * 0.8f, labels_[i].color, kChipOpacity);
    font_.Draw(canvas_, chip.left + padding_, chip.top + padding_ + font_.cap_height(),
               labels_[i].text, ReadableTextColor(labels_[i].color));
  }
  return std::move(canvas_);
}

}  // namespace deform::client
