#include "conv/conv.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "common/cpu_kernel.h"
#include "common/dtypes.h"
#include "common/without_autocast.h"
#include "conv/conv_cpu.h"
#include "conv/operands.h"

namespace deform::ops {
namespace {

// Contiguous operands, for as long as a call takes.
struct PackedOperands {
  at::Tensor value, offset;
  std::optional<at::Tensor> mask;

  PackedOperands(const at::Tensor& value, const at::Tensor& offset,
                 const std::optional<at::Tensor>& mask)
      : value(value.contiguous()), offset(offset.contiguous()) {
    if (mask) this->mask = mask->contiguous();
  }

  kernels::ConvCpuArguments arguments(const at::Tensor& weight, const ConvGeometry& g) const {
    return {
        .value = value.const_data_ptr(),
        .offset = offset.const_data_ptr(),
        .mask = mask ? mask->const_data_ptr() : nullptr,
        .height = value.size(1),
        .width = value.size(2),
        .channels = value.size(3),
        .out_height = offset.size(1),
        .out_width = offset.size(2),
        .kernel_h = weight.size(2),
        .kernel_w = weight.size(3),
        .stride_h = g.stride_h,
        .stride_w = g.stride_w,
        .pad_h = g.pad_h,
        .pad_w = g.pad_w,
        .dilation_h = g.dilation_h,
        .dilation_w = g.dilation_w,
        .groups = g.groups,
        .offset_groups = g.offset_groups,
        .value_dtype = kernel_dtype(value.scalar_type()),
        .offset_dtype = kernel_dtype(offset.scalar_type()),
        .mask_dtype = kernel_dtype(mask ? mask->scalar_type() : at::kFloat),
    };
  }
};

// The state that a thread of at::parallel_for starts with is its own: modes of the calling thread,
// such as inference mode, don't reach it.
class WorkerScope {
 private:
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  WithoutAutocast without_autocast_;
};

// Outputs of a tile, so that its columns, `row` numbers each, stay in a second-level cache.
int64_t tile_outputs(int64_t row, int64_t element_bytes, int64_t outputs) {
  constexpr int64_t kTileBytes = 768 * 1024;
  return std::clamp<int64_t>(kTileBytes / (row * element_bytes), 16,
                             std::max<int64_t>(16, outputs));
}

// grad_output's tile as (groups, outputs, Cout/groups) of the compute type.
at::Tensor gradient_tile(const at::Tensor& rows, int64_t first, int64_t count, int64_t groups,
                         at::ScalarType compute) {
  return rows.narrow(0, first, count).to(compute).reshape({count, groups, -1}).transpose(0, 1);
}

}  // namespace

at::Tensor conv_cpu(const at::Tensor& value, const at::Tensor& offset,
                    const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  check_conv_operands(value, offset, mask, weight, bias, geometry);
  check_conv_limits(value, weight);
  const int64_t outs = weight.size(0), groups = geometry.groups;
  at::Tensor result =
      at::empty({value.size(0), offset.size(1), offset.size(2), outs}, value.options());
  if (result.numel() == 0) return result;

  const PackedOperands operands(value, offset, mask);
  const kernels::ConvCpuArguments arguments = operands.arguments(weight, geometry);
  static const kernels::ConvSampleCpuKernel sample = DEFORM_SELECT_CPU_KERNEL(conv_sample_cpu);
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  const at::Tensor matrices = conv_weight_matrices(weight, groups, compute);
  const at::Tensor wide_bias = bias ? bias->to(compute) : at::Tensor();
  const int64_t row = matrices.size(1) * groups, outputs = result.numel() / outs;
  // A small map is cut further, so that each thread has a tile.
  const int64_t threads = at::get_num_threads();
  const int64_t tile =
      tile_outputs(row, matrices.element_size(), (outputs + threads - 1) / threads);
  const at::Tensor rows = result.view({outputs, outs});
  const int64_t tiles = (outputs + tile - 1) / tile;
  at::parallel_for(0, tiles, 1, [&](int64_t begin, int64_t end) {
    const WorkerScope scope;
    const at::Tensor block = at::empty({tile * row}, matrices.options());
    for (int64_t t = begin; t < end; ++t) {
      const int64_t first = t * tile, count = std::min(tile, outputs - first);
      sample(arguments, first, count, 0, count, block.mutable_data_ptr());
      const at::Tensor columns =
          block.narrow(0, 0, count * row).view({groups, count, matrices.size(1)});
      at::Tensor product = at::bmm(columns, matrices).transpose(0, 1).reshape({count, outs});
      if (bias) product += wide_bias;
      rows.narrow(0, first, count).copy_(product);
    }
  });
  return result;
}

ConvGradients conv_backward_cpu(const at::Tensor& grad_output, const at::Tensor& value,
                                const at::Tensor& offset, const std::optional<at::Tensor>& mask,
                                const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                                const ConvGeometry& geometry) {
  check_conv_operands(grad_output, value, offset, mask, weight, bias, geometry);
  check_conv_limits(value, weight);
  const WithoutAutocast without_autocast;
  const at::ScalarType compute = compute_dtype(value.scalar_type());
  const int64_t outs = weight.size(0), groups = geometry.groups;
  const at::Tensor matrices = conv_weight_matrices(weight, groups, compute);
  at::Tensor by_value = at::zeros(value.sizes(), matrices.options());
  at::Tensor by_offset = at::empty(offset.sizes(), offset.options());
  at::Tensor by_mask =
      mask ? at::empty(mask->sizes(), mask->options()) : at::empty({0}, value.options());
  at::Tensor by_matrices = at::zeros(matrices.sizes(), matrices.options());
  at::Tensor by_bias = bias ? at::zeros({outs}, matrices.options()) : at::Tensor();
  if (grad_output.numel() > 0) {
    const PackedOperands operands(value, offset, mask);
    const kernels::ConvCpuArguments arguments = operands.arguments(weight, geometry);
    static const kernels::ConvSampleCpuKernel sample = DEFORM_SELECT_CPU_KERNEL(conv_sample_cpu);
    static const kernels::ConvPointsCpuKernel points = DEFORM_SELECT_CPU_KERNEL(conv_points_cpu);
    static const kernels::ConvScatterCpuKernel scatter = DEFORM_SELECT_CPU_KERNEL(conv_scatter_cpu);
    const int64_t row = matrices.size(1) * groups, outputs = grad_output.numel() / outs;
    const int64_t tile = tile_outputs(row, matrices.element_size(), outputs);
    const at::Tensor rows = grad_output.reshape({outputs, outs});
    const at::Tensor turned = matrices.transpose(1, 2).contiguous();
    const int64_t threads = at::get_num_threads();
    // Tile by tile, all threads on each: every element's sum has one order.
    const at::Tensor block = at::empty({tile * row}, matrices.options());
    for (int64_t first = 0; first < outputs; first += tile) {
      const int64_t count = std::min(tile, outputs - first);
      const at::Tensor gradient = gradient_tile(rows, first, count, groups, compute);
      const at::Tensor by_columns = at::bmm(gradient, turned);
      const int64_t grain = std::max<int64_t>(1, (count + threads - 1) / threads);
      void* const to_mask = mask ? by_mask.mutable_data_ptr() : nullptr;
      at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) {
        points(arguments, first, count, begin, end, by_columns.const_data_ptr(),
               by_offset.mutable_data_ptr(), to_mask);
        sample(arguments, first, count, begin, end, block.mutable_data_ptr());
      });
      const int64_t channels = value.size(3);
      const int64_t of_thread = std::max<int64_t>(16, (channels + threads - 1) / threads);
      at::parallel_for(0, channels, of_thread, [&](int64_t begin, int64_t end) {
        scatter(arguments, first, count, begin, end, by_columns.const_data_ptr(),
                by_value.mutable_data_ptr());
      });
      const at::Tensor columns =
          block.narrow(0, 0, count * row).view({groups, count, matrices.size(1)});
      by_matrices.baddbmm_(columns.transpose(1, 2), gradient);
      if (bias) by_bias += gradient.sum(1).flatten();
    }
  }
  const at::ScalarType type = value.scalar_type();
  return {by_value.to(type), by_offset, by_mask, conv_weight_from_matrices(by_matrices, weight),
          bias ? by_bias.to(type) : at::empty({0}, value.options())};
}

}  // namespace deform::ops
