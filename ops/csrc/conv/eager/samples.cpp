#include "conv/eager/samples.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <vector>

#include "common/dtypes.h"
#include "common/zero_unless.h"

namespace deform::ops {
namespace {

int64_t whole(const c10::SymInt& size) { return size.guard_int(__FILE__, __LINE__); }

// 1 for a whole number above 0, else 0, in arithmetic alone.
at::Tensor is_positive(const at::Tensor& number) { return at::relu(number) - at::relu(number - 1); }

}  // namespace

ConvSizes::ConvSizes(const at::Tensor& value, const at::Tensor& offset, const at::Tensor& weight,
                     const ConvGeometry& geometry)
    : batch(value.sym_size(0)),
      height(value.sym_size(1)),
      width(value.sym_size(2)),
      out_height(offset.sym_size(1)),
      out_width(offset.sym_size(2)),
      channels(whole(value.sym_size(3))),
      out_channels(whole(weight.sym_size(0))),
      points(whole(weight.sym_size(2) * weight.sym_size(3))),
      kernel_w(whole(weight.sym_size(3))),
      groups(geometry.groups),
      offset_groups(geometry.offset_groups),
      offset_group_channels(channels / offset_groups),
      group_channels(channels / groups),
      group_out_channels(out_channels / groups) {}

ConvSamples::ConvSamples(const at::Tensor& value, const at::Tensor& offset, const ConvSizes& sizes,
                         const ConvGeometry& g, const ConvTile& tile, int64_t row0, bool lean)
    : sizes_(sizes), tile_(tile), lean_(lean) {
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  rows_ = value.reshape_symint({sizes.batch, sizes.height * sizes.width * sizes.offset_groups,
                                c10::SymInt(sizes.offset_group_channels)});
  const at::Tensor offsets = offset.narrow_symint(1, tile.first_row, tile.rows)
                                 .narrow_symint(2, tile.first_column, tile.columns)
                                 .to(compute);
  const at::Tensor point = at::arange(sizes.points, value.options().dtype(at::kLong));
  const at::Tensor line = point.floor_divide(sizes.kernel_w);
  const at::Tensor kernel_y = (line * g.dilation_h).to(compute);
  const at::Tensor kernel_x = ((point - line * sizes.kernel_w) * g.dilation_w).to(compute);
  const auto places = [&](const c10::SymInt& first, const c10::SymInt& count, int64_t stride,
                          int64_t pad) {
    const at::Tensor number = at::arange(at::Scalar(count), value.options().dtype(at::kLong));
    return ((number + at::Scalar(first)) * stride - pad).to(compute);
  };
  const at::Tensor y = places(tile.first_row + row0, tile.rows, g.stride_h, g.pad_h)
                           .reshape_symint({1, tile.rows, 1, 1, 1}) +
                       kernel_y + offsets.select(-1, 0);
  const at::Tensor x = places(tile.first_column, tile.columns, g.stride_w, g.pad_w)
                           .reshape_symint({1, 1, tile.columns, 1, 1}) +
                       kernel_x + offsets.select(-1, 1);
  counted = (x > -1)
                .logical_and(x < at::Scalar(sizes.width))
                .logical_and(y > -1)
                .logical_and(y < at::Scalar(sizes.height));
  // NaN and infinity end here, before they reach an index or a product: all corners of -2 are past
  // the border.
  y_ = at::where(counted, y, at::Scalar(-2));
  x_ = at::where(counted, x, at::Scalar(-2));
}

ConvCorner ConvSamples::corner(int number) const {
  const bool right = number % 2 == 1, bottom = number / 2 == 1;
  const at::Tensor left = x_.detach().floor(), top = y_.detach().floor();
  const at::Tensor to_right = x_ - left, to_bottom = y_ - top;
  const at::Tensor share_x = right ? to_right : 1 - to_right;
  const at::Tensor share_y = bottom ? to_bottom : 1 - to_bottom;
  const at::Scalar height(sizes_.height), width(sizes_.width);
  const at::Tensor column = left + (right ? 1 : 0), line = top + (bottom ? 1 : 0);
  const at::Scalar last_line(sizes_.height - 1), last_column(sizes_.width - 1);
  const int64_t og = sizes_.offset_groups;
  if (lean_) {
    at::Tensor index =
        line.clamp(at::Scalar(0), last_line) * width + column.clamp(at::Scalar(0), last_column);
    if (og > 1) {
      const at::Tensor group =
          at::arange(og, index.options().dtype(at::kLong)).to(index.scalar_type());
      index = index * og + group.reshape({og, 1});
    }
    const at::Tensor within_x = is_positive(column + 1) * is_positive(-column + width);
    const at::Tensor within_y = is_positive(line + 1) * is_positive(-line + height);
    return {index, share_x * within_x, share_y * within_y, at::Tensor(), right, bottom};
  }
  const at::Tensor within_x = (column >= 0).logical_and(column <= last_column);
  const at::Tensor within_y = (line >= 0).logical_and(line <= last_line);
  const auto long_options = rows_.options().dtype(at::kLong);
  const at::Tensor pixel = line.clamp(at::Scalar(0), last_line).to(at::kLong) * width +
                           column.clamp(at::Scalar(0), last_column).to(at::kLong);
  const at::Tensor picture = at::arange(at::Scalar(sizes_.batch), long_options)
                                 .mul(at::Scalar(sizes_.height * sizes_.width))
                                 .reshape_symint({sizes_.batch, 1, 1, 1, 1});
  const at::Tensor index = (picture + pixel) * og + at::arange(og, long_options).reshape({og, 1});
  return {index,
          zero_unless(within_x, share_x),
          zero_unless(within_y, share_y),
          within_x.logical_and(within_y),
          right,
          bottom};
}

at::Tensor ConvSamples::pixels(const ConvCorner& corner) const {
  const c10::SymInt channels(sizes_.offset_group_channels);
  const std::vector<c10::SymInt> shape = {sizes_.batch,
                                          tile_.rows,
                                          tile_.columns,
                                          c10::SymInt(sizes_.offset_groups),
                                          c10::SymInt(sizes_.points),
                                          channels};
  if (!lean_) {
    return rows_.flatten(0, 1).index_select(0, corner.index.flatten()).reshape_symint(shape);
  }
  const int64_t batch = sizes_.batch.guard_int(__FILE__, __LINE__);
  std::vector<at::Tensor> pictures;
  for (int64_t b = 0; b < batch; ++b) {
    pictures.push_back(at::embedding(rows_.select(0, b), corner.index.select(0, b).to(at::kLong)));
  }
  if (batch == 1) return pictures[0].unsqueeze(0);
  return pictures.empty() ? rows_.new_zeros_symint(shape) : at::stack(pictures, 0);
}

at::Tensor ConvSamples::sampled() const {
  at::Tensor sum;
  for (int number = 0; number < 4; ++number) {
    const ConvCorner at_corner = corner(number);
    const at::Tensor share = (at_corner.share_x * at_corner.share_y).unsqueeze(-1);
    const at::Tensor part = pixels(at_corner).to(share.scalar_type()) * share;
    sum = sum.defined() ? sum + part : part;
  }
  // A pixel that a point doesn't read may be infinite.
  return lean_ ? sum : zero_unless(counted.unsqueeze(-1), sum);
}

at::Tensor conv_columns(const at::Tensor& samples, const ConvSizes& s) {
  const c10::SymInt outputs = samples.sym_size(0) * samples.sym_size(1) * samples.sym_size(2);
  return samples.transpose(3, 4)
      .reshape_symint({outputs, s.points, s.groups, s.group_channels})
      .permute({2, 0, 1, 3})
      .reshape_symint({s.groups, outputs, s.points * s.group_channels});
}

at::Tensor conv_samples_from_columns(const at::Tensor& columns, const ConvSizes& s,
                                     const ConvTile& tile) {
  const c10::SymInt outputs = columns.sym_size(1);
  return columns.reshape_symint({s.groups, outputs, s.points, s.group_channels})
      .permute({1, 2, 0, 3})
      .reshape_symint(
          {s.batch, tile.rows, tile.columns, s.points, s.offset_groups, s.offset_group_channels})
      .transpose(3, 4);
}

}  // namespace deform::ops
