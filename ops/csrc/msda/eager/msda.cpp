#include "msda/msda.h"

#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/where.h>

#include "common/dtypes.h"
#include "msda/operands.h"

namespace deform::ops {
namespace {

bool is_readable(const at::Tensor& table) {
  return table.device().is_cpu() && !at::isTensorSubclassLike(table);
}

at::Tensor zero_unless(const at::Tensor& condition, const at::Tensor& tensor) {
  return at::where(condition, tensor, at::Scalar(0));
}

// One level as tensors without dimensions, so that nothing waits for the host to read the table.
struct Level {
  at::Tensor height, width, first_row;  // int64
  at::Tensor usable;                    // bool: lies inside value
};

Level level_at(const at::Tensor& spatial_shapes, const at::Tensor& level_start_index, int64_t index,
               const c10::SymInt& rows) {
  const at::Tensor shape = spatial_shapes.select(0, index).to(at::kLong);
  const at::Tensor height = shape.select(0, 0), width = shape.select(0, 1);
  const at::Tensor first_row = level_start_index.select(0, index).to(at::kLong);
  const at::Tensor last_row = first_row + height * width;
  // The single sizes keep an overflown product from looking small.
  const at::Tensor usable = (first_row >= 0)
                                .logical_and(height >= 1)
                                .logical_and(width >= 1)
                                .logical_and(height <= at::Scalar(rows))
                                .logical_and(width <= at::Scalar(rows))
                                .logical_and(last_row <= at::Scalar(rows));
  return {height, width, first_row, usable};
}

}  // namespace

at::Tensor msda_eager(const at::Tensor& value, const at::Tensor& spatial_shapes,
                      const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                      const at::Tensor& attention_weights, bool softmax) {
  const char* op = msda_name(softmax);
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  if (is_readable(spatial_shapes) && is_readable(level_start_index) && is_readable(value)) {
    read_level_table(op, spatial_shapes, level_start_index, value.size(1));
  }
  const c10::SymInt B = value.sym_size(0), S = value.sym_size(1), G = value.sym_size(2),
                    D = value.sym_size(3), Q = sampling_locations.sym_size(1),
                    K = sampling_locations.sym_size(4);
  const int64_t L = sampling_locations.sym_size(3).guard_int(__FILE__, __LINE__);
  const at::ScalarType compute = compute_dtype(value.scalar_type());

  // Row (b * S + s) * G + g of `pixels` is pixel s of picture b as head g sees it.
  const at::Tensor pixels = value.to(compute).reshape_symint({B * S * G, D});
  const auto index_options = value.options().dtype(at::kLong);
  const at::Tensor picture =
      at::arange(at::Scalar(B), index_options).mul(at::Scalar(S)).reshape_symint({B, 1, 1, 1});
  const at::Tensor head = at::arange(at::Scalar(G), index_options).reshape_symint({1, 1, G, 1});

  at::Tensor weights = attention_weights.to(compute).flatten(3);
  if (softmax) weights = weights.softmax(-1);
  weights = weights.reshape_symint({B, Q, G, L, K});
  const at::Tensor locations = sampling_locations.to(compute);

  at::Tensor result;
  for (int64_t l = 0; l < L; ++l) {
    const Level level = level_at(spatial_shapes, level_start_index, l, S);
    const at::Tensor location = locations.select(3, l);  // (B, Q, G, K, 2)
    at::Tensor x = location.select(-1, 0) * level.width.to(compute) - 0.5;
    at::Tensor y = location.select(-1, 1) * level.height.to(compute) - 0.5;
    const at::Tensor counted = (x > -1)
                                   .logical_and(x < level.width)
                                   .logical_and(y > -1)
                                   .logical_and(y < level.height)
                                   .logical_and(level.usable);
    // NaN and infinity end here, before they reach an index or a product.
    x = zero_unless(counted, x);
    y = zero_unless(counted, y);
    const at::Tensor left = x.detach().floor(), top = y.detach().floor();
    const at::Tensor to_right = x - left, to_bottom = y - top;

    at::Tensor sampled;
    for (int corner = 0; corner < 4; ++corner) {
      const bool right = corner % 2 == 1, bottom = corner / 2 == 1;
      const at::Tensor column = left.to(at::kLong) + (right ? 1 : 0);
      const at::Tensor line = top.to(at::kLong) + (bottom ? 1 : 0);
      const at::Tensor within = (column >= 0)
                                    .logical_and(column < level.width)
                                    .logical_and(line >= 0)
                                    .logical_and(line < level.height);
      const at::Tensor share = zero_unless(
          within, (right ? to_right : 1 - to_right) * (bottom ? to_bottom : 1 - to_bottom));
      // Past the border stands the neighbour within, with a share of 0; an unusable level reads
      // some row of value, which isn't counted.
      const at::Tensor row =
          (level.first_row + at::minimum(line.clamp_min(0), level.height - 1) * level.width +
           at::minimum(column.clamp_min(0), level.width - 1))
              .clamp(at::Scalar(0), at::Scalar(S - 1));
      const at::Tensor index = (picture + row) * at::Scalar(G) + head;
      const at::Tensor corner_pixels =
          pixels.index_select(0, index.flatten()).reshape_symint({B, Q, G, K, D});
      const at::Tensor part = share.unsqueeze(-1) * corner_pixels;
      sampled = sampled.defined() ? sampled + part : part;
    }
    sampled = zero_unless(counted.unsqueeze(-1), sampled);
    const at::Tensor level_weights = zero_unless(counted, weights.select(3, l));
    const at::Tensor sum = (level_weights.unsqueeze(-1) * sampled).sum(3);
    result = result.defined() ? result + sum : sum;
  }
  return result.reshape_symint({B, Q, G * D}).to(value.scalar_type());
}

}  // namespace deform::ops
