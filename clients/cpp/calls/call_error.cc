#include "calls/call_error.h"

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace deform::client {
namespace {

std::chrono::milliseconds ToMilliseconds(const google::protobuf::Duration& duration) {
  return std::chrono::milliseconds(duration.seconds() * 1000 + duration.nanos() / 1'000'000);
}

bool Says(const std::string& message, const CallError::FieldViolation& violation) {
  return message.find(violation.field) != std::string::npos &&
         message.find(violation.description) != std::string::npos;
}

// Everything but the code.
std::string Details(const CallError& error) {
  std::string text = error.message;
  if (!error.reason.empty()) absl::StrAppend(&text, " [", error.reason, "]");
  std::string fields;
  for (const CallError::FieldViolation& violation : error.field_violations) {
    if (Says(error.message, violation)) continue;
    absl::StrAppend(&fields, fields.empty() ? "" : "; ", violation.field, ": ",
                    violation.description);
  }
  if (!fields.empty()) absl::StrAppend(&text, " (", fields, ")");
  return text;
}

}  // namespace

CallError ReadCallError(const grpc::Status& status) {
  CallError error;
  error.code = static_cast<absl::StatusCode>(status.error_code());
  error.message = status.error_message();
  google::rpc::Status rich;
  if (!rich.ParseFromString(status.error_details())) return error;
  for (const google::protobuf::Any& detail : rich.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::BadRequest bad_request;
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&info)) {
      error.reason = info.reason();
    } else if (detail.UnpackTo(&bad_request)) {
      for (const auto& violation : bad_request.field_violations()) {
        error.field_violations.push_back({violation.field(), violation.description()});
      }
    } else if (detail.UnpackTo(&retry)) {
      error.retry_delay = ToMilliseconds(retry.retry_delay());
    }
  }
  return error;
}

CallError MakeCallError(const absl::Status& status) {
  CallError error;
  error.code = status.code();
  error.message = std::string(status.message());
  return error;
}

std::string ToText(const CallError& error) {
  return absl::StrCat(absl::StatusCodeToString(error.code), ": ", Details(error));
}

absl::Status ToStatus(const CallError& error) { return absl::Status(error.code, Details(error)); }

}  // namespace deform::client
