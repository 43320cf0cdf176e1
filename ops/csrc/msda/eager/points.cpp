#include "msda/eager/points.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/minimum.h>

#include "common/dtypes.h"
#include "common/zero_unless.h"

namespace deform::ops {

EagerCall::EagerCall(const at::Tensor& value, const at::Tensor& sampling_locations,
                     const at::Tensor& attention_weights, bool softmax)
    : B(value.sym_size(0)),
      S(value.sym_size(1)),
      G(value.sym_size(2)),
      D(value.sym_size(3)),
      Q(sampling_locations.sym_size(1)),
      K(sampling_locations.sym_size(4)),
      L(sampling_locations.sym_size(3).guard_int(__FILE__, __LINE__)) {
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  pixels = value.to(compute).reshape_symint({B * S * G, D});
  const auto index_options = value.options().dtype(at::kLong);
  picture =
      at::arange(at::Scalar(B), index_options).mul(at::Scalar(S)).reshape_symint({B, 1, 1, 1});
  head = at::arange(at::Scalar(G), index_options).reshape_symint({1, 1, G, 1});
  locations = sampling_locations.to(compute);
  weights = attention_weights.to(compute).flatten(3);
  if (softmax) weights = weights.softmax(-1);
  weights = weights.reshape_symint({B, Q, G, L, K});
}

EagerLevel::EagerLevel(const EagerCall& call, const at::Tensor& spatial_shapes,
                       const at::Tensor& level_start_index, int64_t level)
    : call_(call) {
  const at::Tensor shape = spatial_shapes.select(0, level).to(at::kLong);
  height = shape.select(0, 0);
  width = shape.select(0, 1);
  first_row_ = level_start_index.select(0, level).to(at::kLong);
  const at::Tensor last_row = first_row_ + height * width;
  // Inside value. The single sizes keep an overflown product from looking small.
  const at::Tensor usable = (first_row_ >= 0)
                                .logical_and(height >= 1)
                                .logical_and(width >= 1)
                                .logical_and(height <= at::Scalar(call.S))
                                .logical_and(width <= at::Scalar(call.S))
                                .logical_and(last_row <= at::Scalar(call.S));
  const at::Tensor location = call.locations.select(3, level);  // (B, Q, G, K, 2)
  const at::ScalarType compute = location.scalar_type();
  const at::Tensor x = location.select(-1, 0) * width.to(compute) - 0.5;
  const at::Tensor y = location.select(-1, 1) * height.to(compute) - 0.5;
  counted = (x > -1)
                .logical_and(x < width)
                .logical_and(y > -1)
                .logical_and(y < height)
                .logical_and(usable);
  // NaN and infinity end here, before they reach an index or a product.
  x_ = zero_unless(counted, x);
  y_ = zero_unless(counted, y);
  weights = zero_unless(counted, call.weights.select(3, level));
}

LevelCorner EagerLevel::corner(int number) const {
  const bool right = number % 2 == 1, bottom = number / 2 == 1;
  const at::Tensor left = x_.detach().floor(), top = y_.detach().floor();
  const at::Tensor to_right = x_ - left, to_bottom = y_ - top;
  const at::Tensor column = left.to(at::kLong) + (right ? 1 : 0);
  const at::Tensor line = top.to(at::kLong) + (bottom ? 1 : 0);
  const at::Tensor within_x = (column >= 0).logical_and(column < width);
  const at::Tensor within_y = (line >= 0).logical_and(line < height);
  const at::Tensor within = within_x.logical_and(within_y);
  // An unusable level reads some row of value, which isn't counted.
  const at::Tensor row = (first_row_ + at::minimum(line.clamp_min(0), height - 1) * width +
                          at::minimum(column.clamp_min(0), width - 1))
                             .clamp(at::Scalar(0), at::Scalar(call_.S - 1));
  return {(call_.picture + row) * at::Scalar(call_.G) + call_.head,
          within,
          zero_unless(within, right ? to_right : 1 - to_right),
          zero_unless(within, bottom ? to_bottom : 1 - to_bottom),
          right,
          bottom};
}

at::Tensor EagerLevel::pixels(const LevelCorner& corner) const {
  return call_.pixels.index_select(0, corner.index.flatten())
      .reshape_symint({call_.B, call_.Q, call_.G, call_.K, call_.D});
}

}  // namespace deform::ops
