#include "pipeline/huggingface_arithmetic.h"

#include <charconv>

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
  const double exact = value;
  const auto written = std::to_chars(text, text + sizeof(text), exact, std::chars_format::fixed, 6);
  double rounded = exact;
  std::from_chars(text, written.ptr, rounded);
  return static_cast<float>(rounded);
}

}  // namespace deform::pipeline
