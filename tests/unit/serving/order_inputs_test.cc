#include "serving/order_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace deform::serving {
namespace {

using ::testing::HasSubstr;

const std::vector<engine::TensorSpec> kSpecs = {
    {"pixel_values", engine::DType::kFloat32, {-1, 3, 4, 4}},
    {"pixel_mask", engine::DType::kInt64, {-1, 4, 4}}};

engine::Tensor OfSize(int64_t size) {
  return engine::Tensor::Allocate(engine::DType::kUint8, {size});
}

TEST(OrderInputs, PutsThemIntoTheNetworksOrder) {
  const auto ordered =
      OrderInputs(kSpecs, {{"pixel_mask", OfSize(1)}, {"pixel_values", OfSize(2)}});
  ASSERT_TRUE(ordered.ok()) << ordered.status();
  ASSERT_EQ(ordered->size(), 2u);
  EXPECT_EQ((*ordered)[0].element_count(), 2);
  EXPECT_EQ((*ordered)[1].element_count(), 1);
}

TEST(OrderInputs, NamesWhatIsMissingUnknownOrTwice) {
  struct Case {
    std::vector<std::string> names;
    std::string field, description;
  };
  const Case cases[] = {
      {{"pixel_values"}, "inputs", "pixel_mask is missing"},
      {{}, "inputs", "pixel_values is missing"},
      {{"pixel_values", "pixels"}, "inputs[1].name", "\"pixels\" is not an input"},
      {{"pixel_values", "pixel_mask", "pixel_values"}, "inputs[2].name", "pixel_values came twice"},
      {{""}, "inputs[0].name", "pixel_values, pixel_mask"},
  };
  for (const Case& c : cases) {
    std::vector<std::pair<std::string, engine::Tensor>> inputs;
    for (const std::string& name : c.names) inputs.emplace_back(name, OfSize(1));
    const absl::Status status = OrderInputs(kSpecs, inputs).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const auto details = base::GetErrorDetails(status);
    ASSERT_TRUE(details.has_value());
    ASSERT_EQ(details->field_violations.size(), 1u);
    EXPECT_EQ(details->field_violations[0].field, c.field);
    EXPECT_THAT(details->field_violations[0].description, HasSubstr(c.description));
  }
}

}  // namespace
}  // namespace deform::serving
