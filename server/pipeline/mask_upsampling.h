#pragma once

#include <cstdint>
#include <vector>

#include "engine/package_manifest.h"
#include "pipeline/preprocess.h"

namespace deform::pipeline {

// Bilinear resizing row by row, so that a full-size map of floats never exists: a 12-megapixel
// picture with a hundred queries would otherwise need 5 GB.

// One axis with half-pixel centres (align_corners=False) and clamped edges, in float32 as torch:
// output i is (1 - weight[i]) · input[low[i]] + weight[i] · input[high[i]].
struct LinearAxis {
  std::vector<int32_t> low, high;
  std::vector<float> weight;
};

// The first `used` outputs of the axis that resizes `input` values to `output`.
LinearAxis MakeLinearAxis(int input, int output, int used);

// to[i] = (1 - weight) · low[i] + weight · high[i].
void BlendRows(const float* low, const float* high, float weight, int size, float* to);

// Resizes a row along the axis.
void ResizeRow(const float* row, const LinearAxis& axis, float* to);

// The two steps from mask logits [logits_height, logits_width] to the picture: to the network's
// input, of which the content is kept, and from there to the picture's size.
struct MaskGrid {
  int logits_width = 0, logits_height = 0;
  int content_width = 0, content_height = 0;
  int width = 0, height = 0;        // of the picture
  LinearAxis content_x, content_y;  // index logits
  LinearAxis picture_x, picture_y;  // index content
};

MaskGrid MakeMaskGrid(int logits_width, int logits_height, const engine::PreprocessSpec& spec,
                      const PictureGeometry& geometry);

// One query's mask logits in the finer frames. `logits` and `grid` outlive it. Cheapest when rows
// are asked for in ascending order. Thread-compatible.
class MaskRows {
 public:
  MaskRows(const float* logits, const MaskGrid* grid);

  // Row y of the content, [content_width]; 0 <= y < content_height. Good until the second call of
  // either function from now.
  const float* ContentRow(int y);

  // Row y of the picture into `to`, [width]; 0 <= y < height.
  void PictureRow(int y, float* to);

  // False when no value of PictureRow(y) is `logit` or more: most rows of most masks.
  bool MayReach(int y, float logit);

 private:
  const float* const logits_;
  const MaskGrid* const grid_;
  std::vector<float> rows_[2];  // of the content
  float row_maximum_[2] = {};
  int row_index_[2] = {-1, -1};
  int oldest_ = 0;
  std::vector<float> blended_;
};

}  // namespace deform::pipeline
