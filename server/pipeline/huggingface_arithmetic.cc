#include "pipeline/huggingface_arithmetic.h"

#include <charconv>
#include <cstdio>

namespace deform::pipeline {

double WrittenValue(float value) {
  char text[64];
  const auto written = std::to_chars(text, text + sizeof(text), value);  // the shortest that fits
  double read = value;
  std::from_chars(text, written.ptr, read);
  return read;
}

float RoundToSixDigits(float value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.6f", static_cast<double>(value));
  double rounded = value;
  std::from_chars(text, text + sizeof(text), rounded);
  return static_cast<float>(rounded);
}

}  // namespace deform::pipeline
