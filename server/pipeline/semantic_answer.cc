#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "pipeline/mask_upsampling.h"
#include "pipeline/probabilities.h"
#include "pipeline/task_answers.h"

namespace deform::pipeline {
namespace {

// Rows of class values, [classes, content_width]: over the queries, the sum of class probability ×
// mask probability. "No object" is left out after the softmax.
class ClassRows {
 public:
  ClassRows(const Mask2FormerOutputs& outputs, const MaskGrid* grid)
      : outputs_(outputs),
        grid_(grid),
        class_probabilities_(static_cast<size_t>(outputs.classes) * outputs.queries),
        mask_probabilities_(static_cast<size_t>(outputs.queries) * grid->content_width) {
    const std::vector<float> probabilities =
        Softmax(outputs.class_logits, outputs.queries, outputs.classes + 1);
    for (int query = 0; query < outputs.queries; ++query) {
      masks_.emplace_back(outputs.MaskLogits(query), grid);
      for (int c = 0; c < outputs.classes; ++c)
        class_probabilities_[static_cast<size_t>(c) * outputs.queries + query] =
            probabilities[static_cast<size_t>(query) * (outputs.classes + 1) + c];
    }
    for (auto& row : rows_) row.resize(static_cast<size_t>(outputs.classes) * grid->content_width);
  }

  // Row y of the content. Good until the second call from now.
  const float* Row(int y) {
    for (int slot = 0; slot < 2; ++slot) {
      if (row_index_[slot] != y) continue;
      oldest_ = 1 - slot;
      return rows_[slot].data();
    }
    const int slot = std::exchange(oldest_, 1 - oldest_);
    Compute(y, rows_[slot].data());
    row_index_[slot] = y;
    return rows_[slot].data();
  }

 private:
  void Compute(int y, float* to) {
    const int64_t width = grid_->content_width;
    for (size_t query = 0; query < masks_.size(); ++query)
      std::copy_n(masks_[query].ContentRow(y), width, &mask_probabilities_[query * width]);
    SigmoidInPlace(absl::MakeSpan(mask_probabilities_));
    at::Tensor values = at::from_blob(to, {outputs_.classes, width});
    at::mm_out(values,
               at::from_blob(class_probabilities_.data(), {outputs_.classes, outputs_.queries}),
               at::from_blob(mask_probabilities_.data(), {outputs_.queries, width}));
  }

  const Mask2FormerOutputs& outputs_;
  const MaskGrid* const grid_;
  std::vector<MaskRows> masks_;             // by query
  std::vector<float> class_probabilities_;  // [classes, queries]
  std::vector<float> mask_probabilities_;   // [queries, content_width]
  std::vector<float> rows_[2];
  int row_index_[2] = {-1, -1};
  int oldest_ = 0;
};

}  // namespace

SegmentationResult SemanticAnswer(const Mask2FormerOutputs& outputs, const AnswerContext& context) {
  const MaskGrid grid =
      MakeMaskGrid(outputs.width, outputs.height, context.manifest.preprocess, context.geometry);
  ClassRows classes(outputs, &grid);
  const auto width = static_cast<size_t>(grid.width);
  std::vector<int32_t> label_map(width * grid.height, 0);
  std::vector<float> best(width * grid.height, -1.0f);
  std::vector<float> blended(grid.content_width), values(width);
  for (int y = 0; y < grid.height; ++y) {
    const float* low = classes.Row(grid.picture_y.low[y]);
    const float* high = classes.Row(grid.picture_y.high[y]);
    int32_t* label = &label_map[y * width];
    float* most = &best[y * width];
    for (int32_t c = 0; c < outputs.classes; ++c) {
      const ptrdiff_t first = ptrdiff_t{c} * grid.content_width;
      BlendRows(low + first, high + first, grid.picture_y.weight[y], grid.content_width,
                blended.data());
      ResizeRow(blended.data(), grid.picture_x, values.data());
      for (size_t x = 0; x < width; ++x) {
        label[x] = values[x] > most[x] ? c : label[x];
        most[x] = std::max(most[x], values[x]);
      }
    }
  }
  return SemanticResult(context, std::move(label_map), best);
}

}  // namespace deform::pipeline
