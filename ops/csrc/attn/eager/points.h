// The points of single-scale deformable sampling as tensors, for the eager form in both directions.
// All shapes are (B, Ho, Wo, G, K); floats are of the compute type.
#pragma once

#include <ATen/core/Tensor.h>

#include "attn/attn.h"

namespace deform::ops {

// A pixel beside each point. Past the border stands the neighbour within, with factors of 0.
struct EagerCorner {
  at::Tensor row;      // int64: of value as (B * H * W * G, D)
  at::Tensor within;   // bool
  at::Tensor share_x;  // the point's share of this column, and of this line; 0 unless within
  at::Tensor share_y;
  bool right, bottom;
};

class EagerPoints {
 public:
  // REQUIRES: checked operands.
  EagerPoints(const at::Tensor& value, const at::Tensor& offset_mask, const AttnParameters& p);

  // Number 0 to 3: top left, top right, bottom left, bottom right.
  EagerCorner corner(int number) const;
  // The pixels of a corner: (B, Ho, Wo, G, K, D).
  at::Tensor pixels(const EagerCorner& corner) const;

  at::Tensor counted;  // bool
  at::Tensor weights;  // as given, or normalised
  at::Tensor rows;     // value as (B * H * W * G, D)
  c10::SymInt batch, height, width, out_height, out_width;

 private:
  at::Tensor x_, y_;  // 0 where not counted
  int64_t groups_, points_, channels_;
};

}  // namespace deform::ops
