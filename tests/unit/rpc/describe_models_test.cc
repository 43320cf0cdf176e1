#include "rpc/describe_models.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/metrics.h"
#include "integration/server/fake_repository.h"
#include "support/fake_model.h"

namespace deform::rpc {
namespace {

namespace v1 = segmentation::v1;

class DescribeModelsTest : public ::testing::Test {
 protected:
  void Load() { ASSERT_TRUE(models_.LoadAll().ok()); }

  std::string Field(const absl::Status& status) {
    const auto details = base::GetErrorDetails(status);
    return details && !details->field_violations.empty() ? details->field_violations[0].field : "";
  }

  base::Metrics metrics_;
  testing::FakeRepository repository_;
  testing::FakeModelLoader loader_;
  lifecycle::ModelManager models_{
      {.repository = repository_.path(), .device = "cpu"}, &loader_, &metrics_};
};

TEST_F(DescribeModelsTest, PagesHoldEveryModelOnceInOrder) {
  std::vector<std::string> expected;
  for (int i = 0; i < 7; ++i) {
    expected.push_back(absl::StrCat("m", i));
    repository_.AddSegmentationModel(expected.back());
  }
  Load();
  for (uint32_t page_size = 1; page_size <= 8; ++page_size) {
    std::vector<std::string> listed;
    v1::ListModelsRequest request;
    request.set_page_size(page_size);
    do {
      v1::ListModelsResponse page;
      ASSERT_TRUE(ListModels(models_, request, page).ok());
      ASSERT_GE(page.models_size(), 1);
      ASSERT_LE(page.models_size(), static_cast<int>(page_size));
      for (const auto& model : page.models()) listed.push_back(model.name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    EXPECT_EQ(listed, expected) << page_size;
  }
}

TEST_F(DescribeModelsTest, APageIsAHundredModelsUnlessAskedOtherwise) {
  for (int i = 0; i < 101; ++i) repository_.AddSegmentationModel(absl::StrCat("m", i));
  Load();
  v1::ListModelsResponse page;
  ASSERT_TRUE(ListModels(models_, {}, page).ok());
  EXPECT_EQ(page.models_size(), 100);
  EXPECT_NE(page.next_page_token(), "");
}

TEST_F(DescribeModelsTest, PageSizesAndTokensOutOfRangeAreNamed) {
  v1::ListModelsRequest request;
  v1::ListModelsResponse page;
  request.set_page_size(1001);
  EXPECT_EQ(Field(ListModels(models_, request, page)), "page_size");
  request.set_page_size(1);
  for (const char* token : {"x", "/", "x/y", "1"}) {
    request.set_page_token(token);
    EXPECT_EQ(Field(ListModels(models_, request, page)), "page_token") << token;
  }
}

TEST_F(DescribeModelsTest, AModelThatServesIsToldInFull) {
  repository_.AddSegmentationModel("shapes", 3);
  Load();
  v1::GetModelRequest request;
  request.set_name("shapes");
  v1::GetModelResponse model;
  ASSERT_TRUE(GetModel(models_, request, model).ok());
  EXPECT_EQ(model.summary().name(), "shapes");
  EXPECT_EQ(model.summary().version(), 3);
  EXPECT_EQ(model.summary().state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(model.architecture(), "mask2former");
  EXPECT_EQ(model.description(), "a fake");
  ASSERT_EQ(model.tasks_size(), 3);
  EXPECT_EQ(model.tasks(2), v1::TASK_PANOPTIC);
  ASSERT_EQ(model.labels_size(), 2);
  EXPECT_EQ(model.labels(1).label_id(), 1);
  EXPECT_EQ(model.labels(1).category_id(), 9);
  EXPECT_EQ(model.labels(1).name(), "sand");
  EXPECT_TRUE(model.labels(1).has_is_thing() && !model.labels(1).is_thing());
  EXPECT_EQ(model.labels(1).color(), 0x00ff01u);
  EXPECT_EQ(model.input_width(), 8u);
  EXPECT_EQ(model.input_height(), 8u);
  EXPECT_EQ(model.max_batch(), 8u);
  EXPECT_EQ(model.device(), "cpu");
}

TEST_F(DescribeModelsTest, AModelThatFailedTellsWhy) {
  repository_.AddSegmentationModel("shapes", 3);
  repository_.Damage("shapes", 3);
  Load();
  v1::GetModelRequest request;
  request.set_name("shapes");
  v1::GetModelResponse model;
  ASSERT_TRUE(GetModel(models_, request, model).ok());
  EXPECT_EQ(model.summary().state(), v1::MODEL_STATE_FAILED);
  EXPECT_NE(model.summary().reason().find("model.pt2"), std::string::npos);
  EXPECT_EQ(model.summary().reason().find(repository_.path()), std::string::npos);
  EXPECT_EQ(model.labels_size(), 0);
}

TEST_F(DescribeModelsTest, UnknownModelsAndVersionsAreNotFound) {
  repository_.AddSegmentationModel("shapes", 3);
  Load();
  v1::GetModelResponse model;
  v1::GetModelRequest request;
  request.set_name("shades");
  EXPECT_TRUE(absl::IsNotFound(GetModel(models_, request, model)));
  request.set_name("shapes");
  request.set_version(2);
  EXPECT_TRUE(absl::IsNotFound(GetModel(models_, request, model)));
  request.set_version(-1);
  EXPECT_EQ(Field(GetModel(models_, request, model)), "version");
  request.clear_version();
  request.clear_name();
  EXPECT_EQ(Field(GetModel(models_, request, model)), "name");
}

}  // namespace
}  // namespace deform::rpc
