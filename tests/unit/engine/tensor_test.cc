#include "engine/tensor.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace deform::engine {
namespace {

TEST(TensorTest, EveryDTypeParsesFromItsName) {
  const std::pair<DType, int64_t> sizes[] = {
      {DType::kFloat32, 4}, {DType::kFloat16, 2}, {DType::kBFloat16, 2}, {DType::kFloat64, 8},
      {DType::kInt64, 8},   {DType::kInt32, 4},   {DType::kUint8, 1},    {DType::kBool, 1}};
  for (const auto& [dtype, bytes] : sizes) {
    EXPECT_EQ(*ParseDType(DTypeName(dtype)), dtype);
    EXPECT_EQ(ElementBytes(dtype), bytes) << DTypeName(dtype);
  }
  EXPECT_EQ(DTypeName(DType::kBFloat16), "bfloat16");
  EXPECT_FALSE(ParseDType("float").ok());
  EXPECT_FALSE(ParseDType("").ok());
}

TEST(TensorTest, AllocatedMemoryIsAlignedAndOfTheRightSize) {
  for (const int64_t rows : {0, 1, 7}) {
    Tensor tensor = Tensor::Allocate(DType::kFloat32, {rows, 3});
    EXPECT_EQ(tensor.element_count(), rows * 3);
    EXPECT_EQ(tensor.bytes(), rows * 12);
    ASSERT_NE(tensor.data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
  }
}

TEST(TensorTest, RowsShareTheMemory) {
  Tensor tensor = Tensor::Allocate(DType::kInt32, {4, 2, 3});
  int32_t* values = static_cast<int32_t*>(tensor.mutable_data());
  for (int i = 0; i < 24; ++i) values[i] = i;

  const Tensor row = tensor.Row(2);
  EXPECT_EQ(row.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(row.data_as<int32_t>()[0], 12);

  const Tensor rows = tensor.Rows(1, 3);
  EXPECT_EQ(rows.shape(), (std::vector<int64_t>{3, 2, 3}));
  EXPECT_EQ(rows.data_as<int32_t>()[0], 6);
  EXPECT_EQ(rows.data_as<int32_t>()[17], 23);

  values[12] = 100;
  EXPECT_EQ(row.data_as<int32_t>()[0], 100);
}

TEST(TensorTest, ARowKeepsTheMemoryAlive) {
  Tensor row;
  {
    Tensor tensor = Tensor::Allocate(DType::kFloat32, {2, 1});
    static_cast<float*>(tensor.mutable_data())[1] = 2.5f;
    row = tensor.Row(1);
  }
  EXPECT_EQ(row.data_as<float>()[0], 2.5f);
}

TEST(TensorTest, AWrappedTensorHoldsItsOwnerUntilTheLastCopyGoes) {
  auto owner = std::make_shared<std::vector<float>>(6, 1.0f);
  const std::weak_ptr<std::vector<float>> watched = owner;
  float* const data = owner->data();
  Tensor tensor = Tensor::Wrap(DType::kFloat32, {2, 3}, data, std::move(owner));
  Tensor copy = tensor;
  EXPECT_EQ(copy.data(), data);
  tensor = Tensor();
  EXPECT_FALSE(watched.expired());
  copy = Tensor();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace deform::engine
