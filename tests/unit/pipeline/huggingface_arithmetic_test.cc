#include "pipeline/huggingface_arithmetic.h"

#include <gtest/gtest.h>

namespace deform::pipeline {
namespace {

TEST(HuggingFaceArithmeticTest, RoundsAsPythonDoes) {
  // round(float(numpy.float32(x)), 6), ties decided by the float's exact value.
  EXPECT_EQ(RoundToSixDigits(0.1234565f), 0.123457f);
  EXPECT_EQ(RoundToSixDigits(0.9999995f), 1.0f);
  EXPECT_EQ(RoundToSixDigits(0.4489394f), 0.448939f);
  EXPECT_EQ(RoundToSixDigits(0.0000005f), 0.0f);
  EXPECT_EQ(RoundToSixDigits(0.123456789f), 0.123457f);
}

TEST(HuggingFaceArithmeticTest, ReadsAThresholdAsItWasWritten) {
  EXPECT_EQ(WrittenValue(0.8f), 0.8);
  EXPECT_EQ(WrittenValue(0.1f), 0.1);
  EXPECT_EQ(WrittenValue(0.5f), 0.5);
  EXPECT_EQ(WrittenValue(0.0f), 0.0);
  EXPECT_EQ(WrittenValue(1.0f), 1.0);
  EXPECT_NE(static_cast<double>(0.8f), 0.8);
}

}  // namespace
}  // namespace deform::pipeline
