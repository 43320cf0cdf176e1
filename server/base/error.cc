#include "base/error.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace deform::base {
namespace {

constexpr char kPayloadUrl[] = "deform/error-details";

// The payload never leaves the process, so its form is the plainest that holds any bytes: each
// number as eight bytes, each string as its length and its bytes.
void AppendNumber(int64_t value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendString(std::string_view value, std::string& out) {
  AppendNumber(static_cast<int64_t>(value.size()), out);
  out.append(value);
}

class PayloadReader {
 public:
  explicit PayloadReader(std::string_view bytes) : rest_(bytes) {}

  int64_t Number() {
    int64_t value = 0;
    if (rest_.size() < sizeof(value)) {
      valid_ = false;
      return 0;
    }
    std::memcpy(&value, rest_.data(), sizeof(value));
    rest_.remove_prefix(sizeof(value));
    return value;
  }

  std::string String() {
    const int64_t size = Number();
    if (size < 0 || static_cast<uint64_t>(size) > rest_.size()) {
      valid_ = false;
      return "";
    }
    std::string value(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return value;
  }

  bool valid() const { return valid_; }

 private:
  std::string_view rest_;
  bool valid_ = true;
};

absl::string_view ToAbsl(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status MakeError(absl::StatusCode code, std::string_view message, ErrorDetails details) {
  std::string payload;
  AppendString(details.reason, payload);
  AppendNumber(details.retry_after ? details.retry_after->count() : -1, payload);
  AppendNumber(static_cast<int64_t>(details.field_violations.size()), payload);
  for (const FieldViolation& violation : details.field_violations) {
    AppendString(violation.field, payload);
    AppendString(violation.description, payload);
  }
  absl::Status status(code, ToAbsl(message));
  status.SetPayload(kPayloadUrl, absl::Cord(payload));
  return status;
}

absl::Status InvalidField(std::string_view field, std::string_view description) {
  return InvalidField(field, description, "INVALID_FIELD");
}

absl::Status InvalidField(std::string_view field, std::string_view description,
                          std::string_view reason) {
  return MakeError(absl::StatusCode::kInvalidArgument,
                   absl::StrCat("`", ToAbsl(field), "`: ", ToAbsl(description)),
                   {.reason = std::string(reason),
                    .field_violations = {{std::string(field), std::string(description)}},
                    .retry_after = std::nullopt});
}

std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  const std::string bytes(*payload);
  PayloadReader reader(bytes);
  ErrorDetails details;
  details.reason = reader.String();
  if (const int64_t retry_ms = reader.Number(); retry_ms >= 0)
    details.retry_after = std::chrono::milliseconds(retry_ms);
  for (int64_t left = reader.Number(); left > 0 && reader.valid(); --left) {
    FieldViolation violation;
    violation.field = reader.String();
    violation.description = reader.String();
    details.field_violations.push_back(std::move(violation));
  }
  if (!reader.valid()) return std::nullopt;
  return details;
}

}  // namespace deform::base
