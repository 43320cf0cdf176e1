#include "attn/attn.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "attn/operands.h"

namespace deform::ops {
namespace {

at::Tensor to_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kDouble).contiguous();
}

std::vector<double> normalised(std::vector<double> weights) {
  const double most = *std::max_element(weights.begin(), weights.end());
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - most);
  for (double& weight : weights) weight /= total;
  return weights;
}

// One pixel that a point reads, and how its share of the point changes with the point's place.
struct Corner {
  int64_t pixel;
  double share, by_x, by_y;
};

// The points of one output and group.
struct Points {
  std::vector<double> weight;
  std::vector<std::vector<Corner>> corners;  // none of a point that doesn't count
};

std::vector<Corner> corners_at(double x, double y, int64_t height, int64_t width) {
  std::vector<Corner> corners;
  if (!(x > -1 && x < static_cast<double>(width) && y > -1 && y < static_cast<double>(height))) {
    return corners;
  }
  const auto left = static_cast<int64_t>(std::floor(x));
  const auto top = static_cast<int64_t>(std::floor(y));
  for (int64_t row = top; row <= top + 1; ++row) {
    for (int64_t column = left; column <= left + 1; ++column) {
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      const double share_x = 1 - std::abs(x - static_cast<double>(column));
      const double share_y = 1 - std::abs(y - static_cast<double>(row));
      corners.push_back({row * width + column, share_x * share_y,
                         column == left ? -share_y : share_y, row == top ? -share_x : share_x});
    }
  }
  return corners;
}

// Calls visit(output, group, points) for each, outputs counted over the batch.
using Visit = std::function<void(int64_t output, int64_t group, const Points& points)>;

void for_each(const at::Tensor& value, const at::Tensor& host_offset_mask, const AttnParameters& p,
              const Visit& visit) {
  const int64_t H = value.size(1), W = value.size(2), K = p.points();
  const int64_t Ho = host_offset_mask.size(1), Wo = host_offset_mask.size(2);
  const int64_t outputs = host_offset_mask.size(0) * Ho * Wo;
  const int64_t centre_x = p.dilation_w * (p.kernel_w - 1) / 2;
  const int64_t centre_y = p.dilation_h * (p.kernel_h - 1) / 2;
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t oy = output / Wo % Ho, ox = output % Wo;
    const double* row =
        host_offset_mask.const_data_ptr<double>() + output * host_offset_mask.size(3);
    for (int64_t g = 0; g < p.groups; ++g) {
      Points points;
      int64_t k = 0;
      for (int64_t column = 0; column < p.kernel_w; ++column) {
        for (int64_t line = 0; line < p.kernel_h; ++line) {
          if (p.drop_center && column == p.kernel_w / 2 && line == p.kernel_h / 2) continue;
          const double* triple = row + (g * K + k++) * 3;
          const double x = static_cast<double>(ox * p.stride_w - p.pad_w) +
                           static_cast<double>(centre_x) * (1 - p.spread) +
                           (static_cast<double>(column * p.dilation_w) + triple[0]) * p.spread;
          const double y = static_cast<double>(oy * p.stride_h - p.pad_h) +
                           static_cast<double>(centre_y) * (1 - p.spread) +
                           (static_cast<double>(line * p.dilation_h) + triple[1]) * p.spread;
          points.weight.push_back(triple[2]);
          points.corners.push_back(corners_at(x, y, H, W));
        }
      }
      if (p.softmax) points.weight = normalised(std::move(points.weight));
      visit(output, g, points);
    }
  }
}

}  // namespace

at::Tensor attn_reference(const at::Tensor& value, const at::Tensor& offset_mask,
                          const AttnParameters& p) {
  check_attn_operands(value, offset_mask, p);
  check_attn_limits(value, p);
  const int64_t Ho = offset_mask.size(1), Wo = offset_mask.size(2), D = p.group_dims;
  const int64_t C = p.groups * D, pixels = value.size(1) * value.size(2);
  const at::Tensor host_value = to_host(value);
  at::Tensor result = at::zeros({value.size(0), Ho, Wo, C}, host_value.options());
  const double* from = host_value.const_data_ptr<double>();
  double* out = result.mutable_data_ptr<double>();
  for_each(value, to_host(offset_mask), p, [&](int64_t output, int64_t g, const Points& points) {
    const int64_t first_pixel = output / (Ho * Wo) * pixels;
    for (size_t k = 0; k < points.weight.size(); ++k) {
      for (const Corner& corner : points.corners[k]) {
        for (int64_t d = g * D; d < (g + 1) * D; ++d) {
          out[output * C + d] +=
              points.weight[k] * corner.share * from[(first_pixel + corner.pixel) * C + d];
        }
      }
    }
  });
  return result.to(value.device(), value.scalar_type());
}

AttnGradients attn_backward_reference(const at::Tensor& grad_output, const at::Tensor& value,
                                      const at::Tensor& offset_mask, const AttnParameters& p) {
  check_attn_operands(grad_output, value, offset_mask, p);
  check_attn_limits(value, p);
  const int64_t outputs_of_image = offset_mask.size(1) * offset_mask.size(2);
  const int64_t D = p.group_dims, C = p.groups * D, pixels = value.size(1) * value.size(2);
  const at::Tensor host_value = to_host(value), host_grad = to_host(grad_output);
  at::Tensor value_gradient = at::zeros(value.sizes(), host_value.options());
  at::Tensor mask_gradient = at::zeros(offset_mask.sizes(), host_value.options());
  const double* from = host_value.const_data_ptr<double>();
  const double* grad = host_grad.const_data_ptr<double>();
  double* to_value = value_gradient.mutable_data_ptr<double>();
  double* to_mask = mask_gradient.mutable_data_ptr<double>();
  for_each(value, to_host(offset_mask), p, [&](int64_t output, int64_t g, const Points& points) {
    const int64_t first_pixel = output / outputs_of_image * pixels;
    double* triple = to_mask + output * offset_mask.size(3) + g * p.points() * 3;
    double mean = 0;  // of the derivatives by normalised weights, weighted
    for (size_t k = 0; k < points.weight.size(); ++k) {
      double* to = triple + 3 * k;
      for (const Corner& corner : points.corners[k]) {
        const int64_t pixel = (first_pixel + corner.pixel) * C;
        double product = 0;
        for (int64_t d = g * D; d < (g + 1) * D; ++d) {
          product += grad[output * C + d] * from[pixel + d];
          to_value[pixel + d] += points.weight[k] * corner.share * grad[output * C + d];
        }
        to[0] += points.weight[k] * p.spread * corner.by_x * product;
        to[1] += points.weight[k] * p.spread * corner.by_y * product;
        to[2] += corner.share * product;
      }
      mean += points.weight[k] * to[2];
    }
    if (!p.softmax) return;
    for (size_t k = 0; k < points.weight.size(); ++k) {
      triple[3 * k + 2] = points.weight[k] * (triple[3 * k + 2] - mean);
    }
  });
  return {value_gradient.to(value.device(), value.scalar_type()),
          mask_gradient.to(offset_mask.device(), offset_mask.scalar_type())};
}

}  // namespace deform::ops
