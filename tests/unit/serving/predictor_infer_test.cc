#include <gmock/gmock.h>

#include <cstring>

#include "predictor_fixture.h"

namespace deform::serving {
namespace {

using ::testing::ElementsAre;
using PredictorInferTest = PredictorFixture;

// [reds.size(), 3, 8, 8], each row filled with one value.
engine::Tensor Pixels(const std::vector<float>& reds) {
  const auto rows = static_cast<int64_t>(reds.size());
  auto pixels = engine::Tensor::Allocate(engine::DType::kFloat32, {rows, 3, 8, 8});
  auto* out = static_cast<float*>(pixels.mutable_data());
  for (float red : reds) out = std::fill_n(out, 3 * 8 * 8, red);
  return pixels;
}

TEST_F(PredictorInferTest, TensorsBecomeTheNetworksOutputs) {
  Start();
  const Inferred answer = Infer({{"pixel_values", Pixels({0.0f, 1.0f, 0.5f})}}).get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->model->name, "shapes");
  EXPECT_EQ(answer->times.batch_size, 3);
  ASSERT_EQ(answer->outputs.size(), 2u);
  EXPECT_THAT(answer->outputs[0].shape(), ElementsAre(3, 4, 3));
  EXPECT_THAT(answer->outputs[1].shape(), ElementsAre(3, 4, 2, 2));
  EXPECT_NEAR(*answer->outputs[0].Row(1).data_as<float>(), std::log(0.99f), 1e-5);
  EXPECT_NEAR(*answer->outputs[0].Row(2).data_as<float>(), std::log(0.75f), 1e-5);
  EXPECT_EQ(Requests("OK", "ModelInfer"), 1);
  EXPECT_EQ(metrics_.ImagesTotal("shapes").Value(), 3);
}

TEST_F(PredictorInferTest, PicturesAndTensorsShareABatch) {
  Start({.batch_policy = {.max_batch = 3}});
  auto first = Occupy();
  auto tensors = Infer({{"pixel_values", Pixels({1.0f, 0.25f})}});
  auto picture = Segment(Request(EncodedPicture{kRedPng}));
  AwaitQueued(2);
  network_->OpenGate();
  const Inferred inferred = tensors.get();
  ASSERT_TRUE(inferred.ok()) << inferred.status();
  EXPECT_EQ(inferred->times.batch_size, 3);
  EXPECT_THAT(inferred->outputs[0].shape(), ElementsAre(2, 4, 3));
  const Segmented segmented = picture.get();
  ASSERT_TRUE(segmented.ok()) << segmented.status();
  EXPECT_NEAR(segmented->result.segments.at(0).score, ScoreOfRed(255), 1e-3);
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 3));
}

TEST_F(PredictorInferTest, FaultyInputsNeverReachTheNetwork) {
  Start();
  const auto tensor = [](engine::DType dtype, std::vector<int64_t> shape) {
    auto made = engine::Tensor::Allocate(dtype, std::move(shape));
    std::memset(made.mutable_data(), 0, made.bytes());
    return made;
  };
  using Inputs = std::vector<std::pair<std::string, engine::Tensor>>;
  const std::pair<const char*, Inputs> cases[] = {
      {"none", {}},
      {"unknown name", {{"pixels", Pixels({1})}}},
      {"twice", {{"pixel_values", Pixels({1})}, {"pixel_values", Pixels({1})}}},
      {"one too many", {{"pixel_values", Pixels({1})}, {"pixel_mask", Pixels({1})}}},
      {"uint8", {{"pixel_values", tensor(engine::DType::kUint8, {1, 3, 8, 8})}}},
      {"float64", {{"pixel_values", tensor(engine::DType::kFloat64, {1, 3, 8, 8})}}},
      {"float16", {{"pixel_values", tensor(engine::DType::kFloat16, {1, 3, 8, 8})}}},
      {"wrong height", {{"pixel_values", tensor(engine::DType::kFloat32, {1, 3, 9, 8})}}},
      {"channels last", {{"pixel_values", tensor(engine::DType::kFloat32, {1, 8, 8, 3})}}},
      {"rank 3", {{"pixel_values", tensor(engine::DType::kFloat32, {3, 8, 8})}}},
      {"batch 0", {{"pixel_values", tensor(engine::DType::kFloat32, {0, 3, 8, 8})}}},
      {"batch 9 of 8", {{"pixel_values", tensor(engine::DType::kFloat32, {9, 3, 8, 8})}}},
  };
  for (const auto& [what, inputs] : cases) {
    const absl::Status status = Infer(inputs).get().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
    EXPECT_NE(Field(status), "") << what << ": " << status;
  }
  EXPECT_TRUE(network_->batches().empty());
}

TEST_F(PredictorInferTest, ErrorsOfAdmissionAreThoseOfSegment) {
  Start();
  InferRequest unknown;
  unknown.model = "unicorn";
  std::promise<Inferred> answer;
  predictor_->Infer(unknown, [&](Inferred inferred) { answer.set_value(std::move(inferred)); });
  EXPECT_EQ(answer.get_future().get().status().code(), absl::StatusCode::kNotFound);
  predictor_->StartDraining();
  EXPECT_EQ(Reason(Infer({{"pixel_values", Pixels({1})}}).get().status()), "DRAINING");
}

}  // namespace
}  // namespace deform::serving
