#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deform/segmentation/v1/segmentation.grpc.pb.h"

namespace deform::client {

// What a server hosts. Errors are the server's, their details in the message. Thread-safe.
class ModelCatalog {
 public:
  // `stub` outlives this; `timeout` is for each call.
  ModelCatalog(segmentation::v1::Segmentation::StubInterface& stub,
               std::chrono::nanoseconds timeout);

  // Every model, all pages of the list, in the server's order.
  absl::StatusOr<std::vector<segmentation::v1::ModelSummary>> List() const;

  // One model; version 0 is the newest that serves.
  absl::StatusOr<segmentation::v1::GetModelResponse> Get(const std::string& name,
                                                         int64_t version) const;

  // The name of the only model. INVALID_ARGUMENT naming the models when there are several,
  // NOT_FOUND when there is none.
  absl::StatusOr<std::string> OnlyName() const;

 private:
  segmentation::v1::Segmentation::StubInterface& stub_;
  std::chrono::nanoseconds timeout_;
};

}  // namespace deform::client
