#include "pipeline/probabilities.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>

#include <cmath>

namespace deform::pipeline {

std::vector<float> Softmax(const float* logits, int64_t rows, int64_t columns) {
  const at::Tensor probabilities =
      at::softmax(at::from_blob(const_cast<float*>(logits), {rows, columns}), -1).contiguous();
  const float* first = probabilities.const_data_ptr<float>();
  return {first, first + rows * columns};
}

void SigmoidInPlace(absl::Span<float> logits) {
  // torch hands 32768 values and more to several threads, which costs more than it gains in calls
  // made for each row: pictures are what runs in parallel here.
  constexpr size_t kAtOnce = 16384;
  for (size_t begin = 0; begin < logits.size(); begin += kAtOnce) {
    const absl::Span<float> part = logits.subspan(begin, kAtOnce);
    at::Tensor values = at::from_blob(part.data(), {static_cast<int64_t>(part.size())});
    at::sigmoid_(values);
  }
}

float Logit(float probability) {
  const double p = probability;
  return static_cast<float>(std::log(p / (1.0 - p)));
}

}  // namespace deform::pipeline
