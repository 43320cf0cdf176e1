#include "serving/drop_status.h"

#include "base/error.h"

namespace deform::serving {

absl::Status DropStatus(batching::DropReason reason) {
  if (reason == batching::DropReason::kCancelled) {
    return base::MakeError(absl::StatusCode::kCancelled, "the request was cancelled",
                           {.reason = "CANCELLED", .field_violations = {}, .retry_after = {}});
  }
  return base::MakeError(
      absl::StatusCode::kDeadlineExceeded, "the deadline passed before the answer was ready",
      {.reason = "DEADLINE_EXCEEDED", .field_violations = {}, .retry_after = {}});
}

}  // namespace deform::serving
