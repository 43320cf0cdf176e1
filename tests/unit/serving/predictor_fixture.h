#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <string>
#include <thread>

#include "base/error.h"
#include "serving/predictor.h"
#include "support/fake_model.h"
#include "support/fake_package.h"
#include "support/temporary_folder.h"

namespace deform::serving {

// A 4×2 PNG, pure red, written by Pillow.
inline const std::string kRedPng(
    "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x04\x00\x00\x00\x02\x08\x02\x00\x00\x00"
    "\xf0\xca\xea\x34\x00\x00\x00\x10IDAT\x78\x9c\x63\xfc\xcf\x80\x00\x4c\x48\x6c\x06\x00"
    "\x19\x35\x01\x03\x1b\x2f\x4b\x12\x00\x00\x00\x00IEND\xae\x42\x60\x82",
    73);

// A predictor over a repository with one package, "shapes" version 3, whose network is a fake: it
// finds one object, on the left half, in every picture, the surer the more red the picture is.
class PredictorFixture : public ::testing::Test {
 protected:
  using Segmented = absl::StatusOr<SegmentAnswer>;
  using Inferred = absl::StatusOr<InferAnswer>;

  void SetUp() override {
    testing::WriteFakePackage(repository_.path(), "3", Manifest());
    models_ = std::make_unique<lifecycle::ModelManager>(
        lifecycle::ModelManager::Options{.repository = repository_.path().string(),
                                         .device = "cpu"},
        &loader_, &metrics_);
    network_->SetOutputs(FindLeftHalf);
    ASSERT_TRUE(models_->LoadAll().ok());
    ASSERT_TRUE(models_->Ready()) << models_->List().at(0).reason;
    network_->ForgetBatches();  // those of the warm-up
  }

  void Start(Predictor::Options options = {}) {
    predictor_ = std::make_unique<Predictor>(options, models_.get(), &clock_, &metrics_);
  }

  SegmentRequest Request(std::variant<EncodedPicture, RawPicture> picture,
                         base::TimePoint deadline = base::TimePoint::max(),
                         base::CancellationPtr cancellation = nullptr) {
    SegmentRequest request;
    request.context = {.request_id = "r-1",
                       .method = "Segment",
                       .deadline = deadline,
                       .cancellation = std::move(cancellation)};
    request.model = "shapes";
    request.picture = std::move(picture);
    return request;
  }

  std::future<Segmented> Segment(SegmentRequest request) {
    auto promise = std::make_shared<std::promise<Segmented>>();
    predictor_->Segment(std::move(request),
                        [promise, caller = std::this_thread::get_id()](Segmented answer) {
                          EXPECT_NE(std::this_thread::get_id(), caller);
                          promise->set_value(std::move(answer));
                        });
    return promise->get_future();
  }

  std::future<Inferred> Infer(std::vector<std::pair<std::string, engine::Tensor>> inputs) {
    InferRequest request;
    request.context.method = "ModelInfer";
    request.model = "shapes";
    request.inputs = std::move(inputs);
    auto promise = std::make_shared<std::promise<Inferred>>();
    predictor_->Infer(std::move(request),
                      [promise, caller = std::this_thread::get_id()](Inferred answer) {
                        EXPECT_NE(std::this_thread::get_id(), caller);
                        promise->set_value(std::move(answer));
                      });
    return promise->get_future();
  }

  // A 4×2 picture of one colour.
  static RawPicture OfRed(uint8_t red) {
    RawPicture picture{.rows = {}, .width = 4, .height = 2, .row_stride_bytes = 0};
    for (int pixel = 0; pixel < 8; ++pixel) picture.rows += {static_cast<char>(red), '\0', '\0'};
    return picture;
  }
  // How sure the network is of it.
  static float ScoreOfRed(uint8_t red) { return 0.51f + 0.48f * static_cast<float>(red) / 255.0f; }

  // A request that is inside the network, at its closed gate: what comes after it has to queue.
  std::future<Segmented> Occupy() {
    network_->CloseGate();
    auto answer = Segment(Request(OfRed(0)));
    network_->WaitUntilRunning();
    return answer;
  }

  // Until `requests` have got through decoding into the model's queue.
  void AwaitQueued(int requests) {
    while (metrics_.QueueDepth("shapes").Value() < requests) std::this_thread::yield();
  }

  double Requests(const std::string& code, const std::string& method = "Segment") {
    return metrics_.RequestsTotal("shapes", "3", method, code).Value();
  }

  static std::string Reason(const absl::Status& status) {
    const auto details = base::GetErrorDetails(status);
    return details ? details->reason : "";
  }
  static std::string Field(const absl::Status& status) {
    const auto details = base::GetErrorDetails(status);
    return details && !details->field_violations.empty() ? details->field_violations[0].field : "";
  }

  base::ManualClock clock_;
  base::Metrics metrics_;
  testing::FakeModelLoader loader_;
  std::shared_ptr<testing::FakeNetwork> network_ = loader_.network("shapes");
  std::unique_ptr<lifecycle::ModelManager> models_;
  std::unique_ptr<Predictor> predictor_;

 private:
  static nlohmann::json Manifest() {
    nlohmann::json manifest = testing::FakeManifest("shapes");
    manifest["tasks"] = {"INSTANCE", "SEMANTIC"};
    manifest["preprocess"]["mean"] = {0, 0, 0};
    manifest["preprocess"]["std"] = {1, 1, 1};
    return manifest;
  }

  // Query 0 of 4: label 0 with a probability by the red of the top left pixel; the mask is sure of
  // the left half. The other queries: nothing.
  static absl::StatusOr<std::vector<engine::Tensor>> FindLeftHalf(
      absl::Span<const engine::Tensor> inputs) {
    const int64_t rows = inputs[0].shape()[0];
    auto classes = engine::Tensor::Allocate(engine::DType::kFloat32, {rows, 4, 3});
    auto masks = engine::Tensor::Allocate(engine::DType::kFloat32, {rows, 4, 2, 2});
    auto* logit = static_cast<float*>(classes.mutable_data());
    auto* mask = static_cast<float*>(masks.mutable_data());
    for (int64_t row = 0; row < rows; ++row) {
      const float score = 0.51f + 0.48f * *inputs[0].Row(row).data_as<float>();
      for (int query = 0; query < 4; ++query) {
        const float found = query == 0 ? score : 0.001f;
        const float nothing = query == 0 ? (1 - score) / 2 : 0.998f;
        for (float p : {found, 1 - found - nothing, nothing}) *logit++ = std::log(p);
        for (int cell = 0; cell < 4; ++cell) *mask++ = query == 0 && cell % 2 == 0 ? 40.0f : -40.0f;
      }
    }
    return std::vector<engine::Tensor>{classes, masks};
  }

  testing::TemporaryFolder repository_;
};

}  // namespace deform::serving
