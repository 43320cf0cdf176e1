#include "conv/conv.h"

#include <ATen/ops/zeros.h>

#include <cmath>
#include <functional>
#include <vector>

#include "conv/operands.h"

namespace deform::ops {
namespace {

at::Tensor to_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kDouble).contiguous();
}

// One pixel that a point reads, and how its share of the point changes with the point's place.
struct Corner {
  int64_t pixel;
  double share, by_y, by_x;
};

std::vector<Corner> corners_at(double y, double x, int64_t height, int64_t width) {
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
      corners.push_back({row * width + column, share_x * share_y, row == top ? -share_x : share_x,
                         column == left ? -share_y : share_y});
    }
  }
  return corners;
}

// A point of an output and offset group: its number counts over all, its corners none where it
// doesn't count.
struct Point {
  int64_t number, output, offset_group, k;
  std::vector<Corner> corners;
};

void for_each(const at::Tensor& value, const at::Tensor& host_offset, const at::Tensor& weight,
              const ConvGeometry& g, const std::function<void(const Point&)>& visit) {
  const int64_t Ho = host_offset.size(1), Wo = host_offset.size(2), kW = weight.size(3);
  const int64_t K = weight.size(2) * kW, outputs = host_offset.size(0) * Ho * Wo;
  const double* offset = host_offset.const_data_ptr<double>();
  for (int64_t output = 0; output < outputs; ++output) {
    const int64_t oy = output / Wo % Ho, ox = output % Wo;
    for (int64_t og = 0; og < g.offset_groups; ++og) {
      for (int64_t k = 0; k < K; ++k) {
        const int64_t number = (output * g.offset_groups + og) * K + k;
        const double y = static_cast<double>(oy * g.stride_h - g.pad_h + k / kW * g.dilation_h) +
                         offset[2 * number];
        const double x = static_cast<double>(ox * g.stride_w - g.pad_w + k % kW * g.dilation_w) +
                         offset[2 * number + 1];
        visit({number, output, og, k, corners_at(y, x, value.size(1), value.size(2))});
      }
    }
  }
}

}  // namespace

at::Tensor conv_reference(const at::Tensor& value, const at::Tensor& offset,
                          const std::optional<at::Tensor>& mask, const at::Tensor& weight,
                          const std::optional<at::Tensor>& bias, const ConvGeometry& geometry) {
  check_conv_operands(value, offset, mask, weight, bias, geometry);
  check_conv_limits(value, weight);
  const int64_t Cin = value.size(3), Cout = weight.size(0), K = weight.size(2) * weight.size(3);
  const int64_t Cg = weight.size(1), outs = Cout / geometry.groups;
  const int64_t of_offset_group = Cin / geometry.offset_groups;
  const int64_t outputs_of_image = offset.size(1) * offset.size(2);
  const int64_t pixels = value.size(1) * value.size(2);
  const at::Tensor host_value = to_host(value), host_weight = to_host(weight);
  const at::Tensor host_mask = mask ? to_host(*mask) : at::Tensor();
  at::Tensor result =
      at::zeros({value.size(0), offset.size(1), offset.size(2), Cout}, host_value.options());
  if (bias) result += to_host(*bias);
  const double* from = host_value.const_data_ptr<double>();
  const double* w = host_weight.const_data_ptr<double>();
  double* out = result.mutable_data_ptr<double>();
  for_each(value, to_host(offset), weight, geometry, [&](const Point& point) {
    if (point.corners.empty()) return;
    const double scale = mask ? host_mask.const_data_ptr<double>()[point.number] : 1;
    const int64_t first_pixel = point.output / outputs_of_image * pixels;
    for (int64_t c = point.offset_group * of_offset_group;
         c < (point.offset_group + 1) * of_offset_group; ++c) {
      double sample = 0;
      for (const Corner& corner : point.corners) {
        sample += corner.share * from[(first_pixel + corner.pixel) * Cin + c];
      }
      for (int64_t o = c / Cg * outs; o < (c / Cg + 1) * outs; ++o) {
        out[point.output * Cout + o] += scale * sample * w[(o * Cg + c % Cg) * K + point.k];
      }
    }
  });
  return result.to(value.device(), value.scalar_type());
}

ConvGradients conv_backward_reference(const at::Tensor& grad_output, const at::Tensor& value,
                                      const at::Tensor& offset,
                                      const std::optional<at::Tensor>& mask,
                                      const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias,
                                      const ConvGeometry& geometry) {
  check_conv_operands(grad_output, value, offset, mask, weight, bias, geometry);
  check_conv_limits(value, weight);
  const int64_t Cin = value.size(3), Cout = weight.size(0), K = weight.size(2) * weight.size(3);
  const int64_t Cg = weight.size(1), outs = Cout / geometry.groups;
  const int64_t of_offset_group = Cin / geometry.offset_groups;
  const int64_t outputs_of_image = offset.size(1) * offset.size(2);
  const int64_t pixels = value.size(1) * value.size(2);
  const at::Tensor host_value = to_host(value), host_weight = to_host(weight);
  const at::Tensor host_grad = to_host(grad_output);
  const at::Tensor host_mask = mask ? to_host(*mask) : at::Tensor();
  at::Tensor by_value = at::zeros(value.sizes(), host_value.options());
  at::Tensor by_offset = at::zeros(offset.sizes(), host_value.options());
  at::Tensor by_mask = at::zeros(mask ? mask->sizes() : at::IntArrayRef{0}, host_value.options());
  at::Tensor by_weight = at::zeros(weight.sizes(), host_value.options());
  const double* from = host_value.const_data_ptr<double>();
  const double* w = host_weight.const_data_ptr<double>();
  const double* grad = host_grad.const_data_ptr<double>();
  double* to_value = by_value.mutable_data_ptr<double>();
  double* to_offset = by_offset.mutable_data_ptr<double>();
  double* to_mask = by_mask.mutable_data_ptr<double>();
  double* to_weight = by_weight.mutable_data_ptr<double>();
  for_each(value, to_host(offset), weight, geometry, [&](const Point& point) {
    if (point.corners.empty()) return;
    const double scale = mask ? host_mask.const_data_ptr<double>()[point.number] : 1;
    const int64_t first_pixel = point.output / outputs_of_image * pixels;
    for (int64_t c = point.offset_group * of_offset_group;
         c < (point.offset_group + 1) * of_offset_group; ++c) {
      double sample = 0;
      for (const Corner& corner : point.corners) {
        sample += corner.share * from[(first_pixel + corner.pixel) * Cin + c];
      }
      double of_sample = 0;  // the derivative by the scaled sample
      for (int64_t o = c / Cg * outs; o < (c / Cg + 1) * outs; ++o) {
        const double of_output = grad[point.output * Cout + o];
        const int64_t element = (o * Cg + c % Cg) * K + point.k;
        of_sample += of_output * w[element];
        to_weight[element] += of_output * scale * sample;
      }
      if (mask) to_mask[point.number] += of_sample * sample;
      for (const Corner& corner : point.corners) {
        const int64_t element = (first_pixel + corner.pixel) * Cin + c;
        to_value[element] += of_sample * scale * corner.share;
        to_offset[2 * point.number] += of_sample * scale * corner.by_y * from[element];
        to_offset[2 * point.number + 1] += of_sample * scale * corner.by_x * from[element];
      }
    }
  });
  const at::Tensor by_bias = bias ? host_grad.sum({0, 1, 2}) : at::zeros({0}, host_value.options());
  const auto back = [&](const at::Tensor& gradient, at::ScalarType type) {
    return gradient.to(value.device(), type);
  };
  const at::ScalarType type = value.scalar_type();
  return {back(by_value, type), back(by_offset, offset.scalar_type()),
          back(by_mask, mask ? mask->scalar_type() : type), back(by_weight, type),
          back(by_bias, type)};
}

}  // namespace deform::ops
