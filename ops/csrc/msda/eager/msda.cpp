#include "msda/msda.h"

#include <ATen/TensorOperators.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <vector>

#include "common/zero_unless.h"
#include "msda/eager/points.h"
#include "msda/operands.h"

namespace deform::ops {
namespace {

bool is_readable(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && !at::isTensorSubclassLike(tensor);
}

void check_table(const char* op, const at::Tensor& value, const at::Tensor& spatial_shapes,
                 const at::Tensor& level_start_index) {
  if (is_readable(spatial_shapes) && is_readable(level_start_index) && is_readable(value)) {
    read_level_table(op, spatial_shapes, level_start_index, value.size(1));
  }
}

void add(at::Tensor& sum, const at::Tensor& part) { sum = sum.defined() ? sum + part : part; }

}  // namespace

at::Tensor msda_eager(const at::Tensor& value, const at::Tensor& spatial_shapes,
                      const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                      const at::Tensor& attention_weights, const MsdaOptions& options) {
  const char* op = options.name();
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_table(op, value, spatial_shapes, level_start_index);
  const EagerCall call(value, sampling_locations, attention_weights, options.softmax);
  at::Tensor result;
  for (int64_t l = 0; l < call.L; ++l) {
    const EagerLevel level(call, spatial_shapes, level_start_index, l);
    at::Tensor sampled;
    for (int number = 0; number < 4; ++number) {
      const LevelCorner corner = level.corner(number);
      add(sampled, (corner.share_x * corner.share_y).unsqueeze(-1) * level.pixels(corner));
    }
    // A point that doesn't count has read some pixel, with shares.
    sampled = zero_unless(level.counted.unsqueeze(-1), sampled);
    add(result, (level.weights.unsqueeze(-1) * sampled).sum(3));
  }
  return result.reshape_symint({call.B, call.Q, call.G * call.D}).to(value.scalar_type());
}

MsdaGradients msda_backward_eager(const at::Tensor& grad_output, const at::Tensor& value,
                                  const at::Tensor& spatial_shapes,
                                  const at::Tensor& level_start_index,
                                  const at::Tensor& sampling_locations,
                                  const at::Tensor& attention_weights, const MsdaOptions& options) {
  const char* op = options.name();
  check_msda_operands(op, grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_table(op, value, spatial_shapes, level_start_index);
  const EagerCall call(value, sampling_locations, attention_weights, options.softmax);
  const at::Tensor gradient =
      grad_output.to(call.pixels.scalar_type()).reshape_symint({call.B, call.Q, call.G, 1, call.D});
  at::Tensor by_pixels = at::zeros_like(call.pixels);
  std::vector<at::Tensor> by_location, by_weight;  // of each level
  for (int64_t l = 0; l < call.L; ++l) {
    const EagerLevel level(call, spatial_shapes, level_start_index, l);
    at::Tensor by_x, by_y, by_level_weight;
    for (int number = 0; number < 4; ++number) {
      const LevelCorner corner = level.corner(number);
      const at::Tensor product = zero_unless(corner.within.logical_and(level.counted),
                                             (gradient * level.pixels(corner)).sum(-1));
      const at::Tensor share = corner.share_x * corner.share_y;
      add(by_level_weight, share * product);
      add(by_x, (corner.right ? product : -product) * corner.share_y);
      add(by_y, (corner.bottom ? product : -product) * corner.share_x);
      const at::Tensor parts = (level.weights * share).unsqueeze(-1) * gradient;
      by_pixels = by_pixels.index_add(0, corner.index.flatten(),
                                      parts.reshape_symint({corner.index.sym_numel(), call.D}));
    }
    by_weight.push_back(by_level_weight);
    by_location.push_back(
        at::stack({by_x * level.weights * level.width, by_y * level.weights * level.height}, -1));
  }
  at::Tensor by_weights = at::stack(by_weight, 3);  // as call.weights
  if (options.softmax) {
    const at::Tensor mean = (call.weights * by_weights).sum({-2, -1}, /*keepdim=*/true);
    by_weights = call.weights * (by_weights - mean);
  }
  return {
      by_pixels.reshape_symint(value.sym_sizes()).to(value.scalar_type()),
      at::stack(by_location, 3).to(sampling_locations.scalar_type()),
      by_weights.reshape_symint(attention_weights.sym_sizes()).to(attention_weights.scalar_type())};
}

}  // namespace deform::ops
