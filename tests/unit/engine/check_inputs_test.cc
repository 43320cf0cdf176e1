#include "base/error.h"
#include "engine/model.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::engine {
namespace {

using ::testing::HasSubstr;

const std::vector<TensorSpec>& Specs() {
  static const auto* const specs =
      new std::vector<TensorSpec>{{"pixel_values", DType::kFloat32, {-1, 3, 8, 12}},
                                  {"pixel_mask", DType::kInt64, {-1, 8, 12}}};
  return *specs;
}

constexpr int kMaxBatch = 4;

absl::Status Check(Tensor pixel_values, Tensor pixel_mask) {
  return CheckInputs(Specs(), kMaxBatch, {pixel_values, pixel_mask});
}

Tensor Mask(int64_t batch) { return Tensor::Allocate(DType::kInt64, {batch, 8, 12}); }

TEST(CheckInputsTest, EveryBatchOfTheRangePasses) {
  for (int64_t batch = 1; batch <= kMaxBatch; ++batch) {
    EXPECT_TRUE(Check(Tensor::Allocate(DType::kFloat32, {batch, 3, 8, 12}), Mask(batch)).ok());
  }
}

struct Refusal {
  const char* name;
  DType dtype;
  std::vector<int64_t> shape;
  const char* message;
};

class RefusedInputTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedInputTest, IsNamedWithWhatCameAndWhatIsAllowed) {
  const Refusal& refusal = GetParam();
  const absl::Status status = Check(Tensor::Allocate(refusal.dtype, refusal.shape), Mask(2));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), refusal.message);
  const auto details = base::GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, "INVALID_FIELD");
  EXPECT_EQ(details->field_violations.at(0).field, "pixel_values");
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedInputTest,
    ::testing::Values(
        Refusal{"WrongHeight",
                DType::kFloat32,
                {2, 3, 9, 12},
                "`pixel_values`: its shape is [2, 3, 9, 12], it must be [batch, 3, 8, 12]"},
        Refusal{"WrongWidth",
                DType::kFloat32,
                {2, 3, 8, 11},
                "`pixel_values`: its shape is [2, 3, 8, 11], it must be [batch, 3, 8, 12]"},
        Refusal{"HeightAndWidthSwapped",
                DType::kFloat32,
                {2, 3, 12, 8},
                "`pixel_values`: its shape is [2, 3, 12, 8], it must be [batch, 3, 8, 12]"},
        Refusal{"ChannelsLast",
                DType::kFloat32,
                {2, 8, 12, 3},
                "`pixel_values`: its shape is [2, 8, 12, 3], it must be [batch, 3, 8, 12]"},
        Refusal{"Uint8",
                DType::kUint8,
                {2, 3, 8, 12},
                "`pixel_values`: its dtype is uint8, it must be float32"},
        Refusal{"Float64",
                DType::kFloat64,
                {2, 3, 8, 12},
                "`pixel_values`: its dtype is float64, it must be float32"},
        Refusal{"Float16",
                DType::kFloat16,
                {2, 3, 8, 12},
                "`pixel_values`: its dtype is float16, it must be float32"},
        Refusal{"RankThree",
                DType::kFloat32,
                {3, 8, 12},
                "`pixel_values`: its shape is [3, 8, 12] of rank 3, it must be "
                "[batch, 3, 8, 12] of rank 4"},
        Refusal{"RankFive",
                DType::kFloat32,
                {1, 2, 3, 8, 12},
                "`pixel_values`: its shape is [1, 2, 3, 8, 12] of rank 5, it must be "
                "[batch, 3, 8, 12] of rank 4"},
        Refusal{"BatchZero",
                DType::kFloat32,
                {0, 3, 8, 12},
                "`pixel_values`: its batch is 0, it must be 1 to 4"},
        Refusal{"BatchAboveTheMaximum",
                DType::kFloat32,
                {5, 3, 8, 12},
                "`pixel_values`: its batch is 5, it must be 1 to 4"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(CheckInputsTest, InputsOfDifferentBatchesAreRefused) {
  const absl::Status status = Check(Tensor::Allocate(DType::kFloat32, {2, 3, 8, 12}), Mask(3));
  EXPECT_EQ(status.message(),
            "`pixel_mask`: its batch is 3, that of `pixel_values` is 2; they must be the same");
}

TEST(CheckInputsTest, AMissingInputIsRefusedWithTheNamesThatBelongThere) {
  const absl::Status status =
      CheckInputs(Specs(), kMaxBatch, {Tensor::Allocate(DType::kFloat32, {2, 3, 8, 12})});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pixel_values, pixel_mask"));
}

TEST(CheckInputsTest, ATensorWithoutMemoryIsRefused) {
  const absl::Status status = CheckInputs({{"x", DType::kFloat32, {-1}}}, 1,
                                          {Tensor::Wrap(DType::kFloat32, {1}, nullptr, nullptr)});
  EXPECT_EQ(status.message(), "`x`: it holds no data");
}

}  // namespace
}  // namespace deform::engine
