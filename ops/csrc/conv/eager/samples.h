// The samples of a tile of outputs as tensors, for the eager form in both directions. Shapes are
// (B, n, m, og, K): n rows and m columns of outputs; floats are of the compute type.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include "conv/conv.h"

namespace deform::ops {

// Sizes of a call; those of a picture and an output may be symbolic.
struct ConvSizes {
  c10::SymInt batch, height, width, out_height, out_width;
  int64_t channels, out_channels, points, kernel_w, groups, offset_groups;
  int64_t offset_group_channels, group_channels, group_out_channels;

  // REQUIRES: checked operands.
  ConvSizes(const at::Tensor& value, const at::Tensor& offset, const at::Tensor& weight,
            const ConvGeometry& geometry);
};

// A rectangle of outputs.
struct ConvTile {
  c10::SymInt first_row, rows, first_column, columns;
};

// A pixel beside each point. Past the border stands the neighbour within, with factors of 0.
struct ConvCorner {
  at::Tensor index;    // row of value as (B * H * W * og, channels of an offset group); with `lean`
                       // of one picture's, as floats
  at::Tensor share_x;  // the point's share of this column, and of this line; 0 past the border
  at::Tensor share_y;
  at::Tensor within;  // bool; undefined with `lean`
  bool right, bottom;
};

class ConvSamples {
 public:
  // `row0`: of the outputs that offset's first row belongs to. REQUIRES: checked operands.
  ConvSamples(const at::Tensor& value, const at::Tensor& offset, const ConvSizes& sizes,
              const ConvGeometry& geometry, const ConvTile& tile, int64_t row0, bool lean);

  // Number 0 to 3: top left, top right, bottom left, bottom right.
  ConvCorner corner(int number) const;
  // The pixels of a corner, in value's type: (B, n, m, og, K, C/og).
  at::Tensor pixels(const ConvCorner& corner) const;
  // Bilinear samples in the compute type: (B, n, m, og, K, C/og).
  at::Tensor sampled() const;

  at::Tensor counted;  // bool

 private:
  const ConvSizes& sizes_;
  const ConvTile& tile_;
  const bool lean_;
  at::Tensor rows_;   // value as (B, H * W * og, C/og)
  at::Tensor y_, x_;  // in pixels; outside the map where not counted
};

// (B, n, m, og, K, C/og) as (groups, B * n * m, K * C/groups), the matrices that weight multiplies;
// and back.
at::Tensor conv_columns(const at::Tensor& samples, const ConvSizes& sizes);
at::Tensor conv_samples_from_columns(const at::Tensor& columns, const ConvSizes& sizes,
                                     const ConvTile& tile);

}  // namespace deform::ops
