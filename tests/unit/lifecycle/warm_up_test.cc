#include "lifecycle/warm_up.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/fake_model.h"

namespace deform::lifecycle {
namespace {

using ::testing::ElementsAre;

TEST(WarmUpTest, RunsBatchOneAndTheLargest) {
  auto network = std::make_shared<testing::FakeNetwork>();
  testing::FakeModel model(network);
  EXPECT_TRUE(WarmUp(model).ok());
  EXPECT_THAT(network->batch_sizes(), ElementsAre(1, 8));
}

TEST(WarmUpTest, ANetworkOfBatchOneRunsOnce) {
  auto network = std::make_shared<testing::FakeNetwork>();
  network->max_batch = 1;
  testing::FakeModel model(network);
  EXPECT_TRUE(WarmUp(model).ok());
  EXPECT_THAT(network->batch_sizes(), ElementsAre(1));
}

TEST(WarmUpTest, PicturesAreZeroAndMasksAreFull) {
  auto network = std::make_shared<testing::FakeNetwork>();
  network->inputs = {{"pixel_values", engine::DType::kFloat32, {-1, 2}},
                     {"pixel_mask", engine::DType::kInt64, {-1, 2}}};
  testing::FakeModel model(network);
  ASSERT_TRUE(WarmUp(model).ok());
  const auto batch = network->batches().back();
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(batch[0].data_as<float>()[i], 0.0f);
    EXPECT_EQ(batch[1].data_as<int64_t>()[i], 1);
  }
}

TEST(WarmUpTest, AFailingRunIsReported) {
  auto network = std::make_shared<testing::FakeNetwork>();
  network->SetOutputs(
      [](absl::Span<const engine::Tensor> batch) -> absl::StatusOr<std::vector<engine::Tensor>> {
        if (batch[0].shape()[0] > 1) return absl::InternalError("too much");
        return std::vector<engine::Tensor>();
      });
  testing::FakeModel model(network);
  EXPECT_EQ(WarmUp(model), absl::InternalError("too much"));
}

}  // namespace
}  // namespace deform::lifecycle
