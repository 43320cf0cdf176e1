#include "rpc/violations.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace deform::rpc {

void Violations::Add(std::string field, std::string description) {
  violations_.push_back({std::move(field), std::move(description)});
}

absl::Status Violations::ToStatus() const {
  if (violations_.empty()) return absl::OkStatus();
  std::string message;
  for (const base::FieldViolation& violation : violations_) {
    absl::StrAppend(&message, message.empty() ? "" : "; ", "`", violation.field,
                    "`: ", violation.description);
  }
  return base::MakeError(
      absl::StatusCode::kInvalidArgument, message,
      {.reason = "INVALID_FIELD", .field_violations = violations_, .retry_after = std::nullopt});
}

}  // namespace deform::rpc
