#include "msda/msda.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "msda/operands.h"

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

// One row of value that a point reads, and how its share of the point changes with the location.
struct Corner {
  int64_t row;
  double share, by_x, by_y;
};

// The points of one query and head, all levels.
struct Points {
  std::vector<double> weight;
  std::vector<std::vector<Corner>> corners;  // none of a point that doesn't count
};

std::vector<Corner> corners_at(double location_x, double location_y,
                               const kernels::MsdaLevel& level) {
  std::vector<Corner> corners;
  const double x = location_x * level.width - 0.5, y = location_y * level.height - 0.5;
  if (!(x > -1 && x < level.width && y > -1 && y < level.height)) return corners;
  const auto left = static_cast<int64_t>(std::floor(x));
  const auto top = static_cast<int64_t>(std::floor(y));
  for (int64_t line = top; line <= top + 1; ++line) {
    for (int64_t column = left; column <= left + 1; ++column) {
      if (line < 0 || line >= level.height || column < 0 || column >= level.width) continue;
      const double share_x = 1 - std::abs(x - static_cast<double>(column));
      const double share_y = 1 - std::abs(y - static_cast<double>(line));
      corners.push_back({level.first_row + line * level.width + column, share_x * share_y,
                         (column == left ? -share_y : share_y) * level.width,
                         (line == top ? -share_x : share_x) * level.height});
    }
  }
  return corners;
}

// Calls visit(query, head, points) for each, queries counted over the batch.
using Visit = std::function<void(int64_t query, int64_t head, const Points& points)>;

void for_each(const std::vector<kernels::MsdaLevel>& table, const at::Tensor& sampling_locations,
              const at::Tensor& attention_weights, bool softmax, const Visit& visit) {
  const int64_t queries = sampling_locations.size(0) * sampling_locations.size(1);
  const int64_t G = sampling_locations.size(2), L = sampling_locations.size(3),
                K = sampling_locations.size(4);
  const at::Tensor host_locations = to_host(sampling_locations);
  const at::Tensor host_weights = to_host(attention_weights);
  for (int64_t query = 0; query < queries; ++query) {
    for (int64_t g = 0; g < G; ++g) {
      const int64_t first = (query * G + g) * L * K;
      const double* location = host_locations.const_data_ptr<double>() + 2 * first;
      const double* weight = host_weights.const_data_ptr<double>() + first;
      Points points{{weight, weight + L * K}, {}};
      if (softmax) points.weight = normalised(std::move(points.weight));
      for (int64_t p = 0; p < L * K; ++p) {
        points.corners.push_back(
            corners_at(location[2 * p], location[2 * p + 1], table[static_cast<size_t>(p / K)]));
      }
      visit(query, g, points);
    }
  }
}

}  // namespace

at::Tensor msda_reference(const at::Tensor& value, const at::Tensor& spatial_shapes,
                          const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                          const at::Tensor& attention_weights, const MsdaOptions& options) {
  const char* op = options.name();
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_msda_limits(op, value, sampling_locations);
  const auto table = read_level_table(op, spatial_shapes.to(at::kCPU),
                                      level_start_index.to(at::kCPU), value.size(1));
  const int64_t S = value.size(1), G = value.size(2), D = value.size(3);
  const int64_t Q = sampling_locations.size(1);
  const at::Tensor host_value = to_host(value);
  at::Tensor result = at::zeros({value.size(0), Q, G * D}, host_value.options());
  const double* from = host_value.const_data_ptr<double>();
  double* out = result.mutable_data_ptr<double>();
  const auto add = [&](int64_t query, int64_t g, const Points& points) {
    for (size_t p = 0; p < points.weight.size(); ++p) {
      for (const Corner& corner : points.corners[p]) {
        const int64_t pixel = ((query / Q * S + corner.row) * G + g) * D;
        for (int64_t d = 0; d < D; ++d) {
          out[(query * G + g) * D + d] += points.weight[p] * corner.share * from[pixel + d];
        }
      }
    }
  };
  for_each(table, sampling_locations, attention_weights, options.softmax, add);
  return result.to(value.device(), value.scalar_type());
}

MsdaGradients msda_backward_reference(const at::Tensor& grad_output, const at::Tensor& value,
                                      const at::Tensor& spatial_shapes,
                                      const at::Tensor& level_start_index,
                                      const at::Tensor& sampling_locations,
                                      const at::Tensor& attention_weights,
                                      const MsdaOptions& options) {
  const char* op = options.name();
  check_msda_operands(op, grad_output, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_msda_limits(op, value, sampling_locations);
  const auto table = read_level_table(op, spatial_shapes.to(at::kCPU),
                                      level_start_index.to(at::kCPU), value.size(1));
  const int64_t S = value.size(1), G = value.size(2), D = value.size(3);
  const int64_t Q = sampling_locations.size(1);
  const at::Tensor host_value = to_host(value), host_grad = to_host(grad_output);
  at::Tensor by_value = at::zeros(value.sizes(), host_value.options());
  at::Tensor by_locations = at::zeros(sampling_locations.sizes(), host_value.options());
  at::Tensor by_weights = at::zeros(attention_weights.sizes(), host_value.options());
  const double* from = host_value.const_data_ptr<double>();
  const double* grad = host_grad.const_data_ptr<double>();
  double* to_value = by_value.mutable_data_ptr<double>();
  double* to_locations = by_locations.mutable_data_ptr<double>();
  double* to_weights = by_weights.mutable_data_ptr<double>();
  const auto add = [&](int64_t query, int64_t g, const Points& points) {
    const size_t count = points.weight.size();
    const int64_t first = (query * G + g) * static_cast<int64_t>(count);
    double* of_locations = to_locations + 2 * first;
    double* of_weights = to_weights + first;
    double mean = 0;  // of the derivatives by normalised weights, weighted
    for (size_t p = 0; p < count; ++p) {
      for (const Corner& corner : points.corners[p]) {
        const int64_t pixel = ((query / Q * S + corner.row) * G + g) * D;
        double product = 0;
        for (int64_t d = 0; d < D; ++d) {
          const double of_output = grad[(query * G + g) * D + d];
          product += of_output * from[pixel + d];
          to_value[pixel + d] += points.weight[p] * corner.share * of_output;
        }
        of_locations[2 * p] += points.weight[p] * corner.by_x * product;
        of_locations[2 * p + 1] += points.weight[p] * corner.by_y * product;
        of_weights[p] += corner.share * product;
      }
      mean += points.weight[p] * of_weights[p];
    }
    if (!options.softmax) return;
    for (size_t p = 0; p < count; ++p) {
      of_weights[p] = points.weight[p] * (of_weights[p] - mean);
    }
  };
  for_each(table, sampling_locations, attention_weights, options.softmax, add);
  return {by_value.to(value.device(), value.scalar_type()),
          by_locations.to(value.device(), sampling_locations.scalar_type()),
          by_weights.to(value.device(), attention_weights.scalar_type())};
}

}  // namespace deform::ops
