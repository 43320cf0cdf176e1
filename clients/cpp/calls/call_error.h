#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace deform::client {

// Why a call failed, in the server's words where it gave some.
struct CallError {
  struct FieldViolation {
    std::string field;
    std::string description;
  };

  absl::StatusCode code = absl::StatusCode::kUnknown;  // the same numbers as gRPC's
  std::string message;
  std::string reason;  // google.rpc.ErrorInfo; may be empty
  std::vector<FieldViolation> field_violations;
  std::optional<std::chrono::milliseconds> retry_delay;  // google.rpc.RetryInfo
};

// Reads the details that travel with a status. Foreign or damaged ones are left out.
// REQUIRES: status isn't OK.
CallError ReadCallError(const grpc::Status& status);

// An error of the client's own, such as a file that can't be read. REQUIRES: status isn't OK.
CallError MakeCallError(const absl::Status& status);

// "INVALID_ARGUMENT: the picture is damaged [DAMAGED_IMAGE] (picture.encoded: ends too early)",
// one line. Fields that the message tells about already aren't told twice.
std::string ToText(const CallError& error);

// A status whose message holds reason and violations too.
absl::Status ToStatus(const CallError& error);

}  // namespace deform::client
