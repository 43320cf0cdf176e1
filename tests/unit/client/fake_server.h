#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deform/segmentation/v1/segmentation.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/server.h"

namespace deform::client {

// An error with google.rpc details, as the server sends them.
grpc::Status RichError(grpc::StatusCode code, const std::string& message, const std::string& reason,
                       const std::vector<std::pair<std::string, std::string>>& violations,
                       std::optional<std::chrono::milliseconds> retry_delay);

// A Segmentation service that answers with what a test gave it. Set everything up before the first
// call.
class FakeSegmentation final : public segmentation::v1::Segmentation::Service {
 public:
  using Handler = std::function<grpc::Status(const segmentation::v1::SegmentRequest& request,
                                             segmentation::v1::SegmentResponse* response)>;

  // Lists a model; two for a page of the list.
  void AddModel(segmentation::v1::GetModelResponse model) { models_.push_back(std::move(model)); }
  void OnSegment(Handler handler) { handler_ = std::move(handler); }

  grpc::Status Segment(grpc::ServerContext* context,
                       const segmentation::v1::SegmentRequest* request,
                       segmentation::v1::SegmentResponse* response) override;
  grpc::Status ListModels(grpc::ServerContext* context,
                          const segmentation::v1::ListModelsRequest* request,
                          segmentation::v1::ListModelsResponse* response) override;
  grpc::Status GetModel(grpc::ServerContext* context,
                        const segmentation::v1::GetModelRequest* request,
                        segmentation::v1::GetModelResponse* response) override;

 private:
  std::vector<segmentation::v1::GetModelResponse> models_;
  Handler handler_;
};

// A health service that knows the services it was told of. Watch tells a list of changes and ends.
class FakeHealth final : public grpc::health::v1::Health::Service {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  void Set(const std::string& service, Status status) { statuses_[service] = status; }
  void SetChanges(std::vector<Status> changes) { changes_ = std::move(changes); }

  grpc::Status Check(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::ServerWriter<grpc::health::v1::HealthCheckResponse>* writer) override;

 private:
  std::map<std::string, Status> statuses_;
  std::vector<Status> changes_;
};

// A gRPC server on a port of its own on loopback.
class FakeServer {
 public:
  FakeServer();
  ~FakeServer();

  FakeSegmentation& segmentation() { return segmentation_; }
  FakeHealth& health() { return health_; }
  const std::string& address() const { return address_; }

 private:
  FakeSegmentation segmentation_;
  FakeHealth health_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// What `deform-client` did with the words after its name.
struct ClientRun {
  int exit_code = 0;
  std::string out;
  std::string err;
};

ClientRun RunClient(std::vector<std::string> words);

// A model of two labels, disk (thing, id 0, category 1) and grass (stuff, id 13, category 110).
segmentation::v1::GetModelResponse ShapesModel(const std::string& name);

}  // namespace deform::client
