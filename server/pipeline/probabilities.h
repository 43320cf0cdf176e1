#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace deform::pipeline {

// Softmax over each row of [rows, columns], by torch.
std::vector<float> Softmax(const float* logits, int64_t rows, int64_t columns);

// Logits into probabilities, in place, by torch.
void SigmoidInPlace(absl::Span<float> logits);

// The logit whose sigmoid is `probability`; ±infinity at 1 and 0.
float Logit(float probability);

}  // namespace deform::pipeline
