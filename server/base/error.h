#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace deform::base {

// What a client learns about an error beside its code and message. It travels inside absl::Status
// as a payload, so that no folder below rpc/ needs protobuf; rpc/status turns it into
// google.rpc.ErrorInfo, BadRequest and RetryInfo. Messages never hold paths or internal names.
struct FieldViolation {
  std::string field;        // as the caller wrote it: "options.score_threshold"
  std::string description;  // what came and what is allowed
};

struct ErrorDetails {
  std::string reason;  // SCREAMING_SNAKE_CASE, one of docs/errors.md; ErrorInfo domain is "deform"
  std::vector<FieldViolation> field_violations;
  std::optional<std::chrono::milliseconds> retry_after;
};

// A Status with `details` attached. REQUIRES: code is not kOk.
absl::Status MakeError(absl::StatusCode code, std::string_view message, ErrorDetails details);

// INVALID_ARGUMENT, reason INVALID_FIELD, with one field violation; the message is
// "`field`: description".
absl::Status InvalidField(std::string_view field, std::string_view description);

// As above with a more telling reason ("DAMAGED_IMAGE").
absl::Status InvalidField(std::string_view field, std::string_view description,
                          std::string_view reason);

// The details attached by MakeError, or nullopt for a plain Status.
std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status);

}  // namespace deform::base

// Returns from the enclosing function with the Status of `expression` when that is not OK.
#define DEFORM_RETURN_IF_ERROR(expression)                                                       \
  do {                                                                                           \
    if (absl::Status deform_status_ = (expression); !deform_status_.ok()) return deform_status_; \
  } while (false)

#define DEFORM_CONCAT_INNER_(a, b) a##b
#define DEFORM_CONCAT_(a, b) DEFORM_CONCAT_INNER_(a, b)

// DEFORM_ASSIGN_OR_RETURN(auto x, F()): x from a StatusOr, or return its Status.
#define DEFORM_ASSIGN_OR_RETURN(lhs, expression) \
  DEFORM_ASSIGN_OR_RETURN_IMPL_(DEFORM_CONCAT_(deform_statusor_, __LINE__), lhs, expression)
#define DEFORM_ASSIGN_OR_RETURN_IMPL_(temporary, lhs, expression) \
  auto temporary = (expression);                                  \
  if (!temporary.ok()) return std::move(temporary).status();      \
  lhs = *std::move(temporary)
