#include "rpc/status.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace deform::rpc {
namespace {

// The message travels twice, percent-encoded and inside the details, and the details in base64.
constexpr size_t kMaxMessageBytes = 600;
constexpr size_t kMaxFieldBytes = 128;
constexpr size_t kMaxDescriptionBytes = 400;
constexpr size_t kMaxDetailsBytes = 3000;

// `text` cut to at most `limit` bytes, never inside a UTF-8 sequence.
std::string Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

void AddViolations(const base::ErrorDetails& details, google::rpc::Status& out) {
  google::rpc::BadRequest bad_request;
  for (const base::FieldViolation& violation : details.field_violations) {
    auto* added = bad_request.add_field_violations();
    added->set_field(Cut(violation.field, kMaxFieldBytes));
    added->set_description(Cut(violation.description, kMaxDescriptionBytes));
    if (out.ByteSizeLong() + bad_request.ByteSizeLong() > kMaxDetailsBytes) {
      bad_request.mutable_field_violations()->RemoveLast();
      break;
    }
  }
  if (bad_request.field_violations_size() > 0) out.add_details()->PackFrom(bad_request);
}

void AddRetry(std::chrono::milliseconds retry_after, google::rpc::Status& out) {
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(retry_after.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<int>(retry_after.count() % 1000) * 1'000'000);
  out.add_details()->PackFrom(retry);
}

std::string PublicMessage(const absl::Status& status, bool has_details) {
  const bool may_tell_internals =
      status.code() == absl::StatusCode::kInternal || status.code() == absl::StatusCode::kUnknown;
  if (may_tell_internals && !has_details) return "the server failed; its log says why";
  return Cut({status.message().data(), status.message().size()}, kMaxMessageBytes);
}

}  // namespace

WireStatus ToWireStatus(const absl::Status& status) {
  if (status.ok()) return {};
  const std::optional<base::ErrorDetails> details = base::GetErrorDetails(status);

  WireStatus wire;
  google::rpc::Status message;
  message.set_code(static_cast<int>(status.code()));
  message.set_message(PublicMessage(status, details.has_value()));
  google::rpc::ErrorInfo info;
  info.set_reason(details && !details->reason.empty() ? details->reason
                                                      : absl::StatusCodeToString(status.code()));
  info.set_domain("deform");
  message.add_details()->PackFrom(info);

  if (details && details->retry_after) {
    AddRetry(*details->retry_after, message);
    wire.retry_pushback_ms = std::to_string(details->retry_after->count());
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    wire.retry_pushback_ms = "-1";  // too large: it would be refused again
  }
  if (details) AddViolations(*details, message);

  // absl's and gRPC's codes have the same numbers.
  wire.status = grpc::Status(static_cast<grpc::StatusCode>(status.code()), message.message(),
                             message.SerializeAsString());
  return wire;
}

}  // namespace deform::rpc
