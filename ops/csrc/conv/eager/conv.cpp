#include "conv/conv.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <vector>

#include "common/dtypes.h"
#include "common/without_autocast.h"
#include "common/zero_unless.h"
#include "conv/eager/samples.h"
#include "conv/operands.h"

namespace deform::ops {
namespace {

// weight as (groups, K * C/groups, Cout/groups) of the compute type.
at::Tensor weight_matrices(const at::Tensor& weight, const ConvSizes& s, at::ScalarType compute) {
  return weight.to(compute)
      .reshape({s.groups, s.group_out_channels, s.group_channels, s.points})
      .permute({0, 3, 2, 1})
      .reshape({s.groups, s.points * s.group_channels, s.group_out_channels});
}

at::Tensor convolve(const at::Tensor& value, const at::Tensor& offset,
                    const std::optional<at::Tensor>& mask, const at::Tensor& matrices,
                    const std::optional<at::Tensor>& bias, const ConvSizes& sizes,
                    const ConvGeometry& geometry, const ConvTile& tile, const ConvTiling& tiling) {
  const ConvSamples samples(value, offset, sizes, geometry, tile, tiling.row0, tiling.lean);
  at::Tensor sampled = samples.sampled();
  if (mask) {
    const at::Tensor scale = mask->narrow_symint(1, tile.first_row, tile.rows)
                                 .narrow_symint(2, tile.first_column, tile.columns)
                                 .to(sampled.scalar_type());
    // The mask of a point that doesn't count may be anything.
    sampled = sampled * zero_unless(samples.counted, scale).unsqueeze(-1);
  }
  at::Tensor result =
      at::bmm(conv_columns(sampled, sizes), matrices)
          .transpose(0, 1)
          .reshape_symint({sizes.batch, tile.rows, tile.columns, c10::SymInt(sizes.out_channels)});
  if (bias) result = result + bias->to(result.scalar_type());
  return result.to(value.scalar_type());
}

// An upper bound of what one output of each picture takes beside the result, in bytes: five arrays
// of samples (pixels as they are and widened, their product, the sum before and after), some
// numbers for each point, and the result before it is narrowed.
int64_t scratch_bytes(const ConvSizes& s, const at::Tensor& value, int64_t batch) {
  const int64_t real = value.scalar_type() == at::kDouble ? 8 : 4;
  const int64_t samples = 5 * s.points * s.channels * real;
  const int64_t places = 30 * s.points * s.offset_groups * 8;
  return batch * (samples + places + 3 * s.out_channels * real);
}

// Rectangles of at most `outputs` outputs, row by row: of whole rows, or of a part of one.
std::vector<ConvTile> tiles(int64_t height, int64_t width, int64_t outputs) {
  const int64_t rows = std::clamp<int64_t>(outputs / width, 1, height);
  const int64_t columns = std::min(outputs, width);
  std::vector<ConvTile> all;
  for (int64_t row = 0; row < height; row += rows) {
    for (int64_t column = 0; column < width; column += columns) {
      all.push_back({row, std::min(rows, height - row), column, std::min(columns, width - column)});
    }
  }
  return all;
}

}  // namespace

at::Tensor conv_eager(const at::Tensor& value, const at::Tensor& offset,
                      const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  // The public operator's form: offset holds all rows.
  check_conv_operands(value, offset, mask, weight, bias, geometry);
  return conv_eager(value, offset, mask, weight, bias, geometry, ConvTiling{});
}

at::Tensor conv_eager(const at::Tensor& value, const at::Tensor& offset,
                      const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                      const std::optional<at::Tensor>& bias, const ConvGeometry& geometry,
                      const ConvTiling& tiling) {
  check_conv_operands(value, offset, mask, weight, bias, geometry, tiling.row0);
  const WithoutAutocast without_autocast;
  const ConvSizes sizes(value, offset, weight, geometry);
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  if (tiling.lean) {
    constexpr int64_t kMostPositions = int64_t{1} << 24;
    TORCH_SYM_CHECK(
        (sizes.height * sizes.width * sizes.offset_groups).sym_le(kMostPositions),
        "conv: with lean, value's pixels times offset_groups must be at most 2^24, which "
        "float32 counts exactly, but are ",
        sizes.height * sizes.width * sizes.offset_groups);
  }
  const ConvTile everything{0, sizes.out_height, 0, sizes.out_width};
  if (!tiling.max_bytes) {
    return convolve(value, offset, mask, weight_matrices(weight, sizes, compute), bias, sizes,
                    geometry, everything, tiling);
  }

  const int64_t batch = sizes.batch.guard_int(__FILE__, __LINE__);
  const int64_t height = sizes.out_height.guard_int(__FILE__, __LINE__);
  const int64_t width = sizes.out_width.guard_int(__FILE__, __LINE__);
  const int64_t each = scratch_bytes(sizes, value, batch);
  const int64_t result_bytes =
      batch * height * width * sizes.out_channels * static_cast<int64_t>(value.element_size());
  if (result_bytes == 0) {
    return at::zeros({batch, height, width, sizes.out_channels}, value.options());
  }
  // What all tiles share: weight's matrices while they are made, value in one piece, and the tiles'
  // results before they are joined.
  int64_t shared = 2 * weight.numel() * static_cast<int64_t>(compute == at::kDouble ? 8 : 4);
  if (!value.is_contiguous()) shared += static_cast<int64_t>(value.nbytes());
  if (tiling.lean) shared += result_bytes + result_bytes / height;
  const int64_t outputs = (*tiling.max_bytes - shared) / each;
  TORCH_CHECK(outputs >= 1, "conv: max_bytes must be at least ", shared + each,
              " for these operands, but is ", *tiling.max_bytes);
  const at::Tensor packed = value.contiguous(), matrices = weight_matrices(weight, sizes, compute);
  const auto of_tile = [&](const ConvTile& tile) {
    return convolve(packed, offset, mask, matrices, bias, sizes, geometry, tile, tiling);
  };
  const std::vector<ConvTile> all = tiles(height, width, outputs);
  if (!tiling.lean) {
    at::Tensor result = at::empty({batch, height, width, sizes.out_channels}, value.options());
    for (const ConvTile& tile : all) {
      result.narrow_symint(1, tile.first_row, tile.rows)
          .narrow_symint(2, tile.first_column, tile.columns)
          .copy_(of_tile(tile));
    }
    return result;
  }
  // Converters lower no assignment to a part.
  std::vector<at::Tensor> rows, parts;
  for (const ConvTile& tile : all) {
    parts.push_back(of_tile(tile));
    if (tile.first_column + tile.columns < width) continue;
    rows.push_back(parts.size() == 1 ? parts[0] : at::cat(parts, 2));
    parts.clear();
  }
  return rows.size() == 1 ? rows[0] : at::cat(rows, 1);
}

ConvGradients conv_backward_eager(const at::Tensor& grad_output, const at::Tensor& value,
                                  const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                  const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                  const ConvGeometry& geometry) {
  check_conv_operands(grad_output, value, offset, mask, weight, bias, geometry);
  const WithoutAutocast without_autocast;
  const ConvSizes s(value, offset, weight, geometry);
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  const ConvTile tile{0, s.out_height, 0, s.out_width};
  const ConvSamples samples(value, offset, s, geometry, tile, /*row0=*/0, /*lean=*/false);
  const c10::SymInt outputs = s.batch * s.out_height * s.out_width;
  // (groups, outputs, Cout/groups)
  const at::Tensor gradient = grad_output.to(compute)
                                  .reshape_symint({outputs, s.groups, s.group_out_channels})
                                  .transpose(0, 1);
  const at::Tensor by_columns =
      at::bmm(gradient, weight_matrices(weight, s, compute).transpose(1, 2));
  const at::Tensor by_scaled = conv_samples_from_columns(by_columns, s, tile);

  const at::Tensor sampled = samples.sampled();
  at::Tensor by_samples = by_scaled, scaled = sampled;
  if (mask) {
    const at::Tensor scale = zero_unless(samples.counted, mask->to(compute)).unsqueeze(-1);
    by_samples = by_scaled * scale;
    scaled = sampled * scale;
  }
  const at::Tensor by_mask = mask ? (by_scaled * sampled).sum(-1).to(mask->scalar_type())
                                  : at::zeros({0}, value.options());
  at::Tensor by_rows = at::zeros_symint(
      {s.batch * s.height * s.width * s.offset_groups, c10::SymInt(s.offset_group_channels)},
      value.options().dtype(compute));
  at::Tensor by_x, by_y;
  const auto add = [](at::Tensor& sum, const at::Tensor& part) {
    sum = sum.defined() ? sum + part : part;
  };
  for (int number = 0; number < 4; ++number) {
    const ConvCorner corner = samples.corner(number);
    const at::Tensor share = corner.share_x * corner.share_y;
    // A corner past the border has another pixel in its place, which may be infinite.
    const at::Tensor product =
        zero_unless(corner.within, (by_samples * samples.pixels(corner).to(compute)).sum(-1));
    add(by_x, (corner.right ? product : -product) * corner.share_y);
    add(by_y, (corner.bottom ? product : -product) * corner.share_x);
    const at::Tensor parts = by_samples * share.unsqueeze(-1);
    by_rows = by_rows.index_add(
        0, corner.index.flatten(),
        parts.reshape_symint({corner.index.sym_numel(), c10::SymInt(s.offset_group_channels)}));
  }
  const at::Tensor by_matrices = at::bmm(conv_columns(scaled, s).transpose(1, 2), gradient);
  const at::Tensor by_weight =
      by_matrices.reshape({s.groups, s.points, s.group_channels, s.group_out_channels})
          .permute({0, 3, 2, 1})
          .reshape_symint(weight.sym_sizes());
  const at::Tensor by_bias = bias ? grad_output.to(compute).sum({0, 1, 2}).to(bias->scalar_type())
                                  : at::zeros({0}, value.options());
  return {by_rows.reshape_symint(value.sym_sizes()).to(value.scalar_type()),
          at::stack({by_y, by_x}, -1).to(offset.scalar_type()), by_mask,
          by_weight.to(weight.scalar_type()), by_bias};
}

}  // namespace deform::ops
