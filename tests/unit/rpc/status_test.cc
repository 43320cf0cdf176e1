#include "rpc/status.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace deform::rpc {
namespace {

using std::chrono::milliseconds;

google::rpc::Status Details(const WireStatus& wire) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(wire.status.error_details()));
  return details;
}

template <typename Detail>
std::optional<Detail> Find(const WireStatus& wire) {
  const google::rpc::Status details = Details(wire);
  for (const auto& any : details.details()) {
    Detail detail;
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

std::string Reason(const WireStatus& wire) { return Find<google::rpc::ErrorInfo>(wire)->reason(); }

TEST(WireStatusTest, OkHasNothingBesideIt) {
  const WireStatus wire = ToWireStatus(absl::OkStatus());
  EXPECT_TRUE(wire.status.ok());
  EXPECT_EQ(wire.status.error_details(), "");
  EXPECT_EQ(wire.retry_pushback_ms, "");
}

TEST(WireStatusTest, EveryCodeKeepsItsNumberAndName) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "m");
    const WireStatus wire = ToWireStatus(status);
    EXPECT_EQ(wire.status.error_code(), code);
    EXPECT_EQ(Details(wire).code(), code);
    EXPECT_EQ(Reason(wire), absl::StatusCodeToString(status.code()));
    EXPECT_EQ(Find<google::rpc::ErrorInfo>(wire)->domain(), "deform");
  }
}

TEST(WireStatusTest, FieldViolationsBecomeABadRequest) {
  const WireStatus wire =
      ToWireStatus(base::MakeError(absl::StatusCode::kInvalidArgument, "two faults",
                                   {.reason = "INVALID_FIELD",
                                    .field_violations = {{"a", "x"}, {"b.c", "y"}},
                                    .retry_after = {}}));
  const auto bad_request = Find<google::rpc::BadRequest>(wire);
  ASSERT_TRUE(bad_request);
  ASSERT_EQ(bad_request->field_violations_size(), 2);
  EXPECT_EQ(bad_request->field_violations(1).field(), "b.c");
  EXPECT_EQ(bad_request->field_violations(1).description(), "y");
  EXPECT_EQ(wire.status.error_message(), "two faults");
  EXPECT_EQ(wire.retry_pushback_ms, "");
  EXPECT_FALSE(Find<google::rpc::RetryInfo>(wire));
}

TEST(WireStatusTest, RetryAfterBecomesRetryInfoAndPushback) {
  const WireStatus wire = ToWireStatus(base::MakeError(
      absl::StatusCode::kResourceExhausted, "full",
      {.reason = "QUEUE_FULL", .field_violations = {}, .retry_after = milliseconds(1250)}));
  EXPECT_EQ(Reason(wire), "QUEUE_FULL");
  EXPECT_EQ(wire.retry_pushback_ms, "1250");
  const auto retry = Find<google::rpc::RetryInfo>(wire);
  ASSERT_TRUE(retry);
  EXPECT_EQ(retry->retry_delay().seconds(), 1);
  EXPECT_EQ(retry->retry_delay().nanos(), 250'000'000);
}

TEST(WireStatusTest, ExhaustionThatRetryingDoesNotHealForbidsIt) {
  const WireStatus wire = ToWireStatus(
      base::MakeError(absl::StatusCode::kResourceExhausted, "too large",
                      {.reason = "IMAGE_TOO_LARGE", .field_violations = {}, .retry_after = {}}));
  EXPECT_EQ(wire.retry_pushback_ms, "-1");
  EXPECT_FALSE(Find<google::rpc::RetryInfo>(wire));
}

TEST(WireStatusTest, MessagesOfInternalErrorsStayInside) {
  for (const auto code : {absl::StatusCode::kInternal, absl::StatusCode::kUnknown}) {
    const WireStatus wire = ToWireStatus(absl::Status(code, "/opt/secret: at::Tensor broke"));
    EXPECT_EQ(wire.status.error_message().find("secret"), std::string::npos);
    EXPECT_EQ(wire.status.error_details().find("secret"), std::string::npos);
  }
}

TEST(WireStatusTest, FitsInTheMetadataThatClientsAccept) {
  base::ErrorDetails details{.reason = "INVALID_FIELD", .field_violations = {}, .retry_after = {}};
  std::string umlauts;
  for (int i = 0; i < 5000; ++i) umlauts += "ä";
  for (int i = 0; i < 100; ++i) details.field_violations.push_back({umlauts, umlauts});
  const WireStatus wire =
      ToWireStatus(base::MakeError(absl::StatusCode::kInvalidArgument, umlauts, details));
  // On the wire: the message percent-encoded, three bytes for one; the details in base64.
  const size_t sent =
      3 * wire.status.error_message().size() + 4 * wire.status.error_details().size() / 3;
  EXPECT_LT(sent, 7500u);
  EXPECT_GE(Find<google::rpc::BadRequest>(wire)->field_violations_size(), 1);
}

TEST(WireStatusTest, CutsBetweenCharacters) {
  for (int shift = 0; shift < 3; ++shift) {
    std::string text(shift, 'a');
    for (int i = 0; i < 1000; ++i) text += "…";
    const WireStatus wire = ToWireStatus(absl::NotFoundError(text));
    // protobuf refuses to serialize half a character.
    EXPECT_EQ(Details(wire).message(), wire.status.error_message());
    EXPECT_EQ((wire.status.error_message().size() - shift) % 3, 0u);
  }
}

}  // namespace
}  // namespace deform::rpc
