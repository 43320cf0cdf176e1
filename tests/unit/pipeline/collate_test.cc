#include "pipeline/collate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures.h"

namespace deform::pipeline {
namespace {

std::vector<float> Values(const engine::Tensor& tensor) {
  return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.element_count()};
}

TEST(CollateTest, JoinsEntriesInOrderForEachInput) {
  const std::vector<engine::Tensor> one = {MakeTensor({1, 2}, {1, 2}), MakeTensor({1}, {10})};
  const std::vector<engine::Tensor> two = {MakeTensor({2, 2}, {3, 4, 5, 6}),
                                           MakeTensor({2}, {20, 30})};
  const std::vector<const std::vector<engine::Tensor>*> entries = {&one, &two};
  const std::vector<engine::Tensor> batch = Collate(entries);
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_THAT(batch[0].shape(), testing::ElementsAre(3, 2));
  EXPECT_THAT(Values(batch[0]), testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(batch[1].shape(), testing::ElementsAre(3));
  EXPECT_THAT(Values(batch[1]), testing::ElementsAre(10, 20, 30));
}

TEST(CollateTest, OneEntryIsNotCopied) {
  const std::vector<engine::Tensor> one = {MakeTensor({1, 2}, {1, 2})};
  const std::vector<const std::vector<engine::Tensor>*> entries = {&one};
  EXPECT_EQ(Collate(entries)[0].data(), one[0].data());
}

TEST(CollateTest, SlicesGiveEachEntryItsRowsBack) {
  const std::vector<engine::Tensor> batch = {MakeTensor({3, 2}, {1, 2, 3, 4, 5, 6}),
                                             MakeTensor({3}, {10, 20, 30})};
  const std::vector<engine::Tensor> rows = SliceRows(batch, 1, 2);
  EXPECT_THAT(rows[0].shape(), testing::ElementsAre(2, 2));
  EXPECT_THAT(Values(rows[0]), testing::ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(Values(rows[1]), testing::ElementsAre(20, 30));
  EXPECT_EQ(rows[0].data(), batch[0].data_as<float>() + 2);
}

}  // namespace
}  // namespace deform::pipeline
