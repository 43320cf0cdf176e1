#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/metrics.h"
#include "deform/segmentation/v1/segmentation.grpc.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/create_channel.h"
#include "integration/server/fake_repository.h"
#include "lifecycle/model_manager.h"
#include "rpc/server.h"
#include "serving/predictor.h"
#include "support/fake_model.h"

namespace deform::rpc {

// The details of a failed call, as a client reads them from `grpc-status-details-bin`.
struct ReceivedDetails {
  explicit ReceivedDetails(const grpc::Status& status) {
    EXPECT_TRUE(wire.ParseFromString(status.error_details()));
    for (const auto& detail : wire.details()) {
      if (detail.UnpackTo(&info)) continue;
      if (detail.UnpackTo(&bad_request)) continue;
      if (detail.UnpackTo(&retry)) has_retry = true;
    }
  }
  std::string field(int index = 0) const {
    return index < bad_request.field_violations_size() ? bad_request.field_violations(index).field()
                                                       : "";
  }

  google::rpc::Status wire;
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest bad_request;
  google::rpc::RetryInfo retry;
  bool has_retry = false;
};

// A gRPC server in this process, reached over a real port, before a predictor with two models on
// fake networks: "shapes" version 3 segments, "boxes" version 1 detects. Time stands still in it.
class RpcFixture : public ::testing::Test {
 protected:
  void Start(serving::Predictor::Options predictor_options = {},
             Server::Options server_options = {}) {
    repository_.AddSegmentationModel("shapes", 3);
    repository_.AddDetectionModel("boxes", 1);
    loader_.network("shapes")->SetOutputs(testing::FindDiskOnTheLeft);
    loader_.network("boxes")->SetOutputs(testing::DetectDiskOnTheLeft);
    models_ = std::make_unique<lifecycle::ModelManager>(
        lifecycle::ModelManager::Options{.repository = repository_.path(), .device = "cpu"},
        &loader_, &metrics_);
    ASSERT_TRUE(models_->LoadAll().ok());
    ASSERT_TRUE(models_->Ready()) << models_->List().at(0).reason << models_->List().at(1).reason;
    predictor_ =
        std::make_unique<serving::Predictor>(predictor_options, models_.get(), &clock_, &metrics_);
    auto server = Server::Start(server_options, predictor_.get(), &clock_, &metrics_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = segmentation::v1::Segmentation::NewStub(channel_);
  }

  ~RpcFixture() override {
    for (const char* name : {"shapes", "boxes"}) loader_.network(name)->OpenGate();
    server_.reset();
    predictor_.reset();
  }

  static segmentation::v1::SegmentRequest Request(const std::string& model = "shapes") {
    segmentation::v1::SegmentRequest request;
    request.set_model(model);
    request.set_encoded(testing::kRedPng);
    return request;
  }

  // One call, answered before it returns; fails the test's process rather than hang.
  grpc::Status Segment(const segmentation::v1::SegmentRequest& request,
                       segmentation::v1::SegmentResponse* response = nullptr,
                       grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own_context;
    segmentation::v1::SegmentResponse own_response;
    return stub_->Segment(context != nullptr ? context : &own_context, request,
                          response != nullptr ? response : &own_response);
  }

  // Yields until `condition`, which another thread brings about.
  template <typename Condition>
  static void Await(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }

  base::ManualClock clock_;
  base::Metrics metrics_;
  testing::FakeRepository repository_;
  testing::FakeModelLoader loader_;
  std::unique_ptr<lifecycle::ModelManager> models_;
  std::unique_ptr<serving::Predictor> predictor_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<segmentation::v1::Segmentation::Stub> stub_;
};

}  // namespace deform::rpc
