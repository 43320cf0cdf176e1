#include "pipeline/mask_upsampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace deform::pipeline {

LinearAxis MakeLinearAxis(int input, int output, int used) {
  LinearAxis axis;
  axis.low.reserve(used);
  axis.high.reserve(used);
  axis.weight.reserve(used);
  const float scale = static_cast<float>(input) / static_cast<float>(output);
  for (int i = 0; i < used; ++i) {
    const float at = std::max(scale * (static_cast<float>(i) + 0.5f) - 0.5f, 0.0f);
    const int low = std::min(static_cast<int>(at), input - 1);
    axis.low.push_back(low);
    axis.high.push_back(std::min(low + 1, input - 1));
    axis.weight.push_back(std::clamp(at - static_cast<float>(low), 0.0f, 1.0f));
  }
  return axis;
}

void BlendRows(const float* low, const float* high, float weight, int size, float* to) {
  const float rest = 1.0f - weight;
  for (int i = 0; i < size; ++i) to[i] = rest * low[i] + weight * high[i];
}

void ResizeRow(const float* row, const LinearAxis& axis, float* to) {
  const int32_t* low = axis.low.data();
  const int32_t* high = axis.high.data();
  const float* weight = axis.weight.data();
  const int size = static_cast<int>(axis.weight.size());
  for (int i = 0; i < size; ++i)
    to[i] = (1.0f - weight[i]) * row[low[i]] + weight[i] * row[high[i]];
}

MaskGrid MakeMaskGrid(int logits_width, int logits_height, const engine::PreprocessSpec& spec,
                      const PictureGeometry& geometry) {
  MaskGrid grid;
  grid.logits_width = logits_width;
  grid.logits_height = logits_height;
  grid.content_width = geometry.content_width;
  grid.content_height = geometry.content_height;
  grid.width = geometry.width;
  grid.height = geometry.height;
  grid.content_x = MakeLinearAxis(logits_width, spec.width, geometry.content_width);
  grid.content_y = MakeLinearAxis(logits_height, spec.height, geometry.content_height);
  grid.picture_x = MakeLinearAxis(geometry.content_width, geometry.width, geometry.width);
  grid.picture_y = MakeLinearAxis(geometry.content_height, geometry.height, geometry.height);
  return grid;
}

MaskRows::MaskRows(const float* logits, const MaskGrid* grid)
    : logits_(logits), grid_(grid), blended_(std::max(grid->logits_width, grid->content_width)) {
  for (auto& row : rows_) row.resize(grid->content_width);
}

const float* MaskRows::ContentRow(int y) {
  for (int slot = 0; slot < 2; ++slot) {
    if (row_index_[slot] != y) continue;
    oldest_ = 1 - slot;
    return rows_[slot].data();
  }
  // The older of the two goes: a row of the picture needs two neighbours at a time.
  const int slot = oldest_;
  const ptrdiff_t width = grid_->logits_width;
  BlendRows(logits_ + grid_->content_y.low[y] * width, logits_ + grid_->content_y.high[y] * width,
            grid_->content_y.weight[y], grid_->logits_width, blended_.data());
  ResizeRow(blended_.data(), grid_->content_x, rows_[slot].data());
  row_maximum_[slot] = *std::max_element(rows_[slot].begin(), rows_[slot].end());
  row_index_[slot] = y;
  oldest_ = 1 - slot;
  return rows_[slot].data();
}

bool MaskRows::MayReach(int y, float logit) {
  // Blending goes beyond neither of the two; the margin is for its rounding.
  ContentRow(grid_->picture_y.low[y]);
  ContentRow(grid_->picture_y.high[y]);
  const float most = std::max(row_maximum_[0], row_maximum_[1]);
  return !(most < logit - 1e-3f * std::abs(logit) - 1e-3f);
}

void MaskRows::PictureRow(int y, float* to) {
  const float* low = ContentRow(grid_->picture_y.low[y]);
  const float* high = ContentRow(grid_->picture_y.high[y]);
  BlendRows(low, high, grid_->picture_y.weight[y], grid_->content_width, blended_.data());
  ResizeRow(blended_.data(), grid_->picture_x, to);
}

}  // namespace deform::pipeline
