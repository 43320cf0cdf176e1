#include "msda/msda.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "msda/operands.h"

namespace deform::ops {
namespace {

at::Tensor to_host(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kDouble).contiguous();
}

std::vector<double> normalised(const double* logits, int64_t count) {
  const double most = *std::max_element(logits, logits + count);
  std::vector<double> weights(logits, logits + count);
  double total = 0;
  for (double& weight : weights) total += weight = std::exp(weight - most);
  for (double& weight : weights) weight /= total;
  return weights;
}

}  // namespace

at::Tensor msda_reference(const at::Tensor& value, const at::Tensor& spatial_shapes,
                          const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                          const at::Tensor& attention_weights, bool softmax) {
  const char* op = msda_name(softmax);
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_msda_limits(op, value, sampling_locations);
  const auto table = read_level_table(op, spatial_shapes.to(at::kCPU),
                                      level_start_index.to(at::kCPU), value.size(1));
  const int64_t B = value.size(0), S = value.size(1), G = value.size(2), D = value.size(3);
  const int64_t Q = sampling_locations.size(1), L = sampling_locations.size(3),
                K = sampling_locations.size(4);
  const at::Tensor host_value = to_host(value);
  const at::Tensor host_locations = to_host(sampling_locations);
  const at::Tensor host_weights = to_host(attention_weights);
  at::Tensor result = at::zeros({B, Q, G * D}, host_value.options());
  const double* pixels = host_value.const_data_ptr<double>();
  const double* location = host_locations.const_data_ptr<double>();
  const double* weight = host_weights.const_data_ptr<double>();
  double* out = result.mutable_data_ptr<double>();

  for (int64_t b = 0; b < B; ++b) {
    for (int64_t q = 0; q < Q; ++q) {
      for (int64_t g = 0; g < G; ++g) {
        const int64_t query_head = (b * Q + q) * G + g;
        const double* row = weight + query_head * L * K;
        const std::vector<double> weights =
            softmax ? normalised(row, L * K) : std::vector<double>(row, row + L * K);
        for (int64_t l = 0; l < L; ++l) {
          const auto [height, width, first_row] = table[static_cast<size_t>(l)];
          for (int64_t k = 0; k < K; ++k) {
            const int64_t point = query_head * L * K + l * K + k;
            const double x = location[2 * point] * width - 0.5;
            const double y = location[2 * point + 1] * height - 0.5;
            if (!(x > -1 && x < width && y > -1 && y < height)) continue;
            for (int64_t row_y = std::floor(y); row_y <= std::floor(y) + 1; ++row_y) {
              for (int64_t column = std::floor(x); column <= std::floor(x) + 1; ++column) {
                if (row_y < 0 || row_y >= height || column < 0 || column >= width) continue;
                const double share = (1 - std::abs(y - row_y)) * (1 - std::abs(x - column)) *
                                     weights[static_cast<size_t>(l * K + k)];
                const int64_t pixel = (b * S + first_row + row_y * width + column) * G + g;
                for (int64_t d = 0; d < D; ++d) {
                  out[query_head * D + d] += share * pixels[pixel * D + d];
                }
              }
            }
          }
        }
      }
    }
  }
  return result.to(value.device(), value.scalar_type());
}

}  // namespace deform::ops
