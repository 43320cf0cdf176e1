#pragma once

#include <string>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace deform::rpc {

// What one call ends with.
struct WireStatus {
  // Its error_details is a serialized google.rpc.Status with ErrorInfo (domain "deform", reason of
  // docs/errors.md) and, where they apply, BadRequest and RetryInfo.
  grpc::Status status;
  // Value of the trailing metadata `grpc-retry-pushback-ms`; empty: none. Negative tells clients
  // with a retry policy not to retry.
  std::string retry_pushback_ms;
};

// The one place where absl::Status becomes gRPC's. A status without details gets its code's name as
// reason; the message of one that is INTERNAL or UNKNOWN without details, which may name anything,
// is replaced. Message and details are cut so that they fit in the 8 KiB of trailing metadata that
// gRPC clients accept.
WireStatus ToWireStatus(const absl::Status& status);

}  // namespace deform::rpc
