#include "attn/eager/points.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include "attn/operands.h"
#include "common/dtypes.h"
#include "common/zero_unless.h"

namespace deform::ops {
namespace {

// Where points would be on one axis without offsets and spread, in pixels: (outputs, 1) + (K).
struct Axis {
  at::Tensor start, step;
};

Axis axis(const c10::SymInt& outputs, int64_t stride, double start, const at::Tensor& step,
          int64_t dilation, at::ScalarType compute) {
  const at::Tensor output = at::arange(at::Scalar(outputs), step.options());
  return {(output * stride).to(compute) + start, (step * dilation).to(compute)};
}

}  // namespace

EagerPoints::EagerPoints(const at::Tensor& value, const at::Tensor& offset_mask,
                         const AttnParameters& p)
    : batch(value.sym_size(0)),
      height(value.sym_size(1)),
      width(value.sym_size(2)),
      out_height(offset_mask.sym_size(1)),
      out_width(offset_mask.sym_size(2)),
      groups_(p.groups),
      points_(p.points()),
      channels_(p.group_dims) {
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  rows = value.to(compute).reshape_symint({batch * height * width * groups_, channels_});

  const kernels::AttnGrid grid = attn_grid(p);
  at::Tensor point = at::arange(points_, value.options().dtype(at::kLong));
  point = point + (point >= grid.dropped).to(at::kLong);
  const at::Tensor column = point.floor_divide(p.kernel_h);
  const Axis across = axis(out_width, p.stride_w, grid.start_x, column, p.dilation_w, compute);
  const Axis down = axis(out_height, p.stride_h, grid.start_y, point - column * p.kernel_h,
                         p.dilation_h, compute);

  const at::Tensor triples =
      offset_mask.narrow_symint(3, 0, groups_ * points_ * 3)
          .to(compute)
          .reshape_symint({batch, out_height, out_width, groups_, points_, 3});
  weights = triples.select(-1, 2);
  if (p.softmax) weights = weights.softmax(-1);
  const at::Tensor x = across.start.reshape_symint({1, 1, out_width, 1, 1}) +
                       (across.step + triples.select(-1, 0)) * p.spread;
  const at::Tensor y = down.start.reshape_symint({1, out_height, 1, 1, 1}) +
                       (down.step + triples.select(-1, 1)) * p.spread;
  counted = (x > -1)
                .logical_and(x < at::Scalar(width))
                .logical_and(y > -1)
                .logical_and(y < at::Scalar(height));
  // NaN and infinity end here, before they reach an index or a product.
  x_ = zero_unless(counted, x);
  y_ = zero_unless(counted, y);
}

EagerCorner EagerPoints::corner(int number) const {
  const bool right = number % 2 == 1, bottom = number / 2 == 1;
  const at::Tensor left = x_.detach().floor(), top = y_.detach().floor();
  const at::Tensor column = left.to(at::kLong) + (right ? 1 : 0);
  const at::Tensor line = top.to(at::kLong) + (bottom ? 1 : 0);
  const at::Tensor within = (column >= 0)
                                .logical_and(column < at::Scalar(width))
                                .logical_and(line >= 0)
                                .logical_and(line < at::Scalar(height));
  const at::Tensor to_right = x_ - left, to_bottom = y_ - top;

  const auto options = column.options();
  const at::Tensor image = (at::arange(at::Scalar(batch), options) * at::Scalar(height))
                               .reshape_symint({batch, 1, 1, 1, 1});
  const at::Tensor group = at::arange(groups_, options).reshape({groups_, 1});
  const at::Tensor pixel =
      (image + line.clamp(at::Scalar(0), at::Scalar(height - 1))) * at::Scalar(width) +
      column.clamp(at::Scalar(0), at::Scalar(width - 1));
  return {
      .row = pixel * groups_ + group,
      .within = within,
      .share_x = zero_unless(within, right ? to_right : 1 - to_right),
      .share_y = zero_unless(within, bottom ? to_bottom : 1 - to_bottom),
      .right = right,
      .bottom = bottom,
  };
}

at::Tensor EagerPoints::pixels(const EagerCorner& corner) const {
  return rows.index_select(0, corner.row.flatten())
      .reshape_symint({batch, out_height, out_width, groups_, points_, channels_});
}

}  // namespace deform::ops
