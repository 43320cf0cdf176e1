#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "base/error.h"
#include "serving/predictor.h"
#include "support/fake_model.h"

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

  ~PredictorFixture() override {
    predictor_.reset();
    std::filesystem::remove_all(repository_);
  }

  void Start(Predictor::Options options = {}) {
    WritePackage();
    models_ = std::make_unique<lifecycle::ModelManager>(
        lifecycle::ModelManager::Options{.repository = repository_, .device = "cpu"}, &loader_,
        &metrics_);
    network_->SetOutputs(FindLeftHalf);
    ASSERT_TRUE(models_->LoadAll().ok());
    ASSERT_TRUE(models_->Ready()) << models_->List().at(0).reason;
    network_->ForgetBatches();  // those of the warm-up
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
  // Query 0 of 2: label 0 with a probability by the red of the top left pixel; the mask
  // is sure of the left half. Query 1: nothing.
  static absl::StatusOr<std::vector<engine::Tensor>> FindLeftHalf(
      absl::Span<const engine::Tensor> inputs) {
    const int64_t rows = inputs[0].shape()[0];
    auto classes = engine::Tensor::Allocate(engine::DType::kFloat32, {rows, 2, 3});
    auto masks = engine::Tensor::Allocate(engine::DType::kFloat32, {rows, 2, 4, 4});
    auto* logit = static_cast<float*>(classes.mutable_data());
    auto* mask = static_cast<float*>(masks.mutable_data());
    for (int64_t row = 0; row < rows; ++row) {
      const float red = *inputs[0].Row(row).data_as<float>();
      const float score = 0.51f + 0.48f * red;
      for (float p : {score, (1 - score) / 2, (1 - score) / 2, 0.001f, 0.001f, 0.998f})
        *logit++ = std::log(p);
      for (int i = 0; i < 32; ++i) *mask++ = i < 16 && i % 4 < 2 ? 40.0f : -40.0f;
    }
    return std::vector<engine::Tensor>{classes, masks};
  }

  void WritePackage() {
    char folder[] = "/tmp/deform_predictor_XXXXXX";
    repository_ = ::mkdtemp(folder);
    const std::string package = repository_ + "/shapes/3";
    std::filesystem::create_directories(package);
    std::ofstream(package + "/model.pt2");  // empty: fakes open no file
    std::ofstream(package + "/package.json") << R"({
      "schema_version": 1, "name": "shapes", "architecture": "mask2former",
      "tasks": ["INSTANCE", "SEMANTIC"],
      "labels": [{"id": 0, "category_id": 1, "name": "disk", "is_thing": null,
                  "color": [220, 20, 60]},
                 {"id": 1, "category_id": 2, "name": "star", "is_thing": null,
                  "color": [0, 20, 60]}],
      "preprocess": {"mode": "exact", "height": 8, "width": 8, "resample": "bilinear",
                     "antialias": true, "rescale_factor": 0.00392156862745098,
                     "mean": [0, 0, 0], "std": [1, 1, 1], "pixel_mask": false},
      "postprocess": {"compat": "DEFAULT", "score_threshold": 0.5, "mask_threshold": 0.5,
                      "overlap_mask_area_threshold": 0.8, "max_results": 100,
                      "fuse_label_ids": []},
      "num_queries": 2, "num_classes": 2, "max_batch": 8,
      "inputs": [{"name": "pixel_values", "dtype": "float32", "shape": [-1, 3, 8, 8]}],
      "outputs": [
        {"name": "class_queries_logits", "dtype": "float32", "shape": [-1, 2, 3]},
        {"name": "masks_queries_logits", "dtype": "float32", "shape": [-1, 2, 4, 4]}],
      "artifacts": [{"file": "model.pt2", "device": "cpu", "isa": null, "sm": null,
                     "dtype": "float32", "height": 8, "width": 8, "min_batch": 1, "max_batch": 8,
                     "torch": "2.11.0", "ops": [], "compile_seconds": 1.0, "bytes": 0}],
      "files": {"model.pt2": {"sha256":
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "bytes": 0}},
      "source": {"architecture_config_sha256":
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "weights_sha256":
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      "parity": []
    })";
  }

  std::string repository_;
};

}  // namespace deform::serving
