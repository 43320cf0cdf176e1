#include "attn/attn.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include "attn/eager/points.h"
#include "attn/operands.h"
#include "common/zero_unless.h"

namespace deform::ops {

at::Tensor attn_eager(const at::Tensor& value, const at::Tensor& offset_mask,
                      const AttnParameters& p) {
  check_attn_operands(value, offset_mask, p);
  const EagerPoints points(value, offset_mask, p);
  at::Tensor sampled;
  for (int number = 0; number < 4; ++number) {
    const EagerCorner corner = points.corner(number);
    const at::Tensor part = (corner.share_x * corner.share_y).unsqueeze(-1) * points.pixels(corner);
    sampled = sampled.defined() ? sampled + part : part;
  }
  // A point that doesn't count has read some pixel, with shares, and has some weight.
  sampled = zero_unless(points.counted.unsqueeze(-1), sampled);
  const at::Tensor weights = zero_unless(points.counted, points.weights);
  return (weights.unsqueeze(-1) * sampled)
      .sum(4)
      .reshape_symint({points.batch, points.out_height, points.out_width, value.sym_size(3)})
      .to(value.scalar_type());
}

AttnGradients attn_backward_eager(const at::Tensor& grad_output, const at::Tensor& value,
                                  const at::Tensor& offset_mask, const AttnParameters& p) {
  check_attn_operands(grad_output, value, offset_mask, p);
  const EagerPoints points(value, offset_mask, p);
  const at::Tensor weights = zero_unless(points.counted, points.weights);
  const at::Tensor gradient = grad_output.to(points.rows.scalar_type())
                                  .reshape_symint({points.batch, points.out_height,
                                                   points.out_width, p.groups, 1, p.group_dims});
  at::Tensor by_rows = at::zeros_like(points.rows);
  at::Tensor by_x, by_y, by_weight;
  const auto add = [](at::Tensor& sum, const at::Tensor& part) {
    sum = sum.defined() ? sum + part : part;
  };
  for (int number = 0; number < 4; ++number) {
    const EagerCorner corner = points.corner(number);
    const at::Tensor product = zero_unless(corner.within.logical_and(points.counted),
                                           (gradient * points.pixels(corner)).sum(-1));
    const at::Tensor share = corner.share_x * corner.share_y;
    add(by_weight, share * product);
    add(by_x, (corner.right ? product : -product) * corner.share_y);
    add(by_y, (corner.bottom ? product : -product) * corner.share_x);
    const at::Tensor parts = (weights * share).unsqueeze(-1) * gradient;
    by_rows = by_rows.index_add(0, corner.row.flatten(),
                                parts.reshape_symint({corner.row.sym_numel(), p.group_dims}));
  }
  if (p.softmax) {
    const at::Tensor mean = (points.weights * by_weight).sum(-1, /*keepdim=*/true);
    by_weight = points.weights * (by_weight - mean);
  }
  const at::Tensor by_offset = weights * p.spread;
  const int64_t used = p.groups * p.points() * 3;
  const at::Tensor triples =
      at::stack({by_x * by_offset, by_y * by_offset, by_weight}, -1)
          .reshape_symint({points.batch, points.out_height, points.out_width, used});
  return {by_rows.reshape_symint(value.sym_sizes()).to(value.scalar_type()),
          at::constant_pad_nd_symint(triples, {0, offset_mask.sym_size(3) - used})
              .to(offset_mask.scalar_type())};
}

}  // namespace deform::ops
