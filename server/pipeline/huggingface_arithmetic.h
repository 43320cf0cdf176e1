#pragma once

namespace deform::pipeline {

// What Python does with numbers on the way, where it decides an answer.

// Both sides of the square that Hugging Face's Mask2Former processor resizes mask logits to,
// whatever the network's input.
inline constexpr int kHuggingFaceMaskSide = 384;

// The double that a person meant by a float: 0.8f is 0.8, as Python would have read it.
double WrittenValue(float value);

// Python's round(value, 6).
float RoundToSixDigits(float value);

}  // namespace deform::pipeline
