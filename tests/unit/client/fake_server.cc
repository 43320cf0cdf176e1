#include "fake_server.h"

#include <sstream>

#include "cli/run.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace deform::client {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using segmentation::v1::GetModelRequest;
using segmentation::v1::GetModelResponse;
using segmentation::v1::ListModelsRequest;
using segmentation::v1::ListModelsResponse;
using segmentation::v1::SegmentRequest;
using segmentation::v1::SegmentResponse;

grpc::Status RichError(grpc::StatusCode code, const std::string& message, const std::string& reason,
                       const std::vector<std::pair<std::string, std::string>>& violations,
                       std::optional<std::chrono::milliseconds> retry_delay) {
  google::rpc::Status rich;
  rich.set_code(code);
  rich.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("deform");
  rich.add_details()->PackFrom(info);
  if (!violations.empty()) {
    google::rpc::BadRequest bad_request;
    for (const auto& [field, description] : violations) {
      auto* violation = bad_request.add_field_violations();
      violation->set_field(field);
      violation->set_description(description);
    }
    rich.add_details()->PackFrom(bad_request);
  }
  if (retry_delay) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_delay->count() / 1000);
    retry.mutable_retry_delay()->set_nanos(retry_delay->count() % 1000 * 1'000'000);
    rich.add_details()->PackFrom(retry);
  }
  return grpc::Status(code, message, rich.SerializeAsString());
}

grpc::Status FakeSegmentation::Segment(grpc::ServerContext*, const SegmentRequest* request,
                                       SegmentResponse* response) {
  return handler_(*request, response);
}

grpc::Status FakeSegmentation::ListModels(grpc::ServerContext*, const ListModelsRequest* request,
                                          ListModelsResponse* response) {
  constexpr size_t kPage = 2;
  const size_t begin = request->page_token().empty() ? 0 : std::stoul(request->page_token());
  for (size_t i = begin; i < models_.size() && i < begin + kPage; ++i) {
    *response->add_models() = models_[i].summary();
  }
  if (begin + kPage < models_.size()) {
    response->set_next_page_token(std::to_string(begin + kPage));
  }
  return grpc::Status::OK;
}

grpc::Status FakeSegmentation::GetModel(grpc::ServerContext*, const GetModelRequest* request,
                                        GetModelResponse* response) {
  for (const GetModelResponse& model : models_) {
    if (model.summary().name() != request->name()) continue;
    if (model.summary().state() == segmentation::v1::MODEL_STATE_FAILED) {
      return RichError(grpc::StatusCode::FAILED_PRECONDITION, "the model didn't load",
                       "MODEL_FAILED", {}, std::nullopt);
    }
    *response = model;
    return grpc::Status::OK;
  }
  return RichError(grpc::StatusCode::NOT_FOUND, "no model " + request->name(), "MODEL_NOT_FOUND",
                   {}, std::nullopt);
}

grpc::Status FakeHealth::Check(grpc::ServerContext*, const HealthCheckRequest* request,
                               HealthCheckResponse* response) {
  const auto found = statuses_.find(request->service());
  if (found == statuses_.end()) return grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown");
  response->set_status(found->second);
  return grpc::Status::OK;
}

grpc::Status FakeHealth::Watch(grpc::ServerContext*, const HealthCheckRequest*,
                               grpc::ServerWriter<HealthCheckResponse>* writer) {
  for (const Status status : changes_) {
    HealthCheckResponse response;
    response.set_status(status);
    writer->Write(response);
  }
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is going away");
}

FakeServer::FakeServer() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&segmentation_);
  builder.RegisterService(&health_);
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
  address_ = "127.0.0.1:" + std::to_string(port);
}

FakeServer::~FakeServer() { server_->Shutdown(); }

ClientRun RunClient(std::vector<std::string> words) {
  std::vector<const char*> argv{"deform-client"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  Console console{out, err};
  const int exit_code = Run(static_cast<int>(argv.size()), argv.data(), console);
  return {exit_code, out.str(), err.str()};
}

GetModelResponse ShapesModel(const std::string& name) {
  GetModelResponse model;
  model.mutable_summary()->set_name(name);
  model.mutable_summary()->set_version(3);
  model.mutable_summary()->set_state(segmentation::v1::MODEL_STATE_READY);
  model.set_description("Shapes on textured grounds.");
  model.set_architecture("mask2former");
  model.add_tasks(segmentation::v1::TASK_INSTANCE);
  model.add_tasks(segmentation::v1::TASK_PANOPTIC);
  model.set_input_width(320);
  model.set_input_height(256);
  model.set_max_batch(8);
  model.set_device("cpu");
  auto* disk = model.add_labels();
  disk->set_category_id(1);
  disk->set_name("disk");
  disk->set_is_thing(true);
  disk->set_color(0xDC143C);
  auto* grass = model.add_labels();
  grass->set_label_id(13);
  grass->set_category_id(110);
  grass->set_name("grass");
  grass->set_is_thing(false);
  grass->set_color(0x6B8E23);
  return model;
}

}  // namespace deform::client
