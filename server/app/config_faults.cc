#include "app/config_faults.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace deform::app {

void ConfigFaults::Add(const std::string& setting, const std::string& description) {
  faults_.push_back({setting, description});
}

void ConfigFaults::AddAll(const absl::Status& status) {
  if (status.ok()) return;
  const auto details = base::GetErrorDetails(status);
  if (!details || details->field_violations.empty()) return Add("", std::string(status.message()));
  faults_.insert(faults_.end(), details->field_violations.begin(), details->field_violations.end());
}

absl::Status ConfigFaults::ToStatus() const {
  if (faults_.empty()) return absl::OkStatus();
  std::string message;
  for (const base::FieldViolation& fault : faults_) {
    absl::StrAppend(&message, message.empty() ? "" : "\n", fault.field,
                    fault.field.empty() ? "" : ": ", fault.description);
  }
  return base::MakeError(
      absl::StatusCode::kInvalidArgument, message,
      {.reason = "INVALID_CONFIG", .field_violations = faults_, .retry_after = std::nullopt});
}

}  // namespace deform::app
