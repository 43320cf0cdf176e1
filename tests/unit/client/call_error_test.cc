#include "calls/call_error.h"

#include <string>

#include "fake_server.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

TEST(ReadCallError, ReadsReasonFieldsAndRetryDelay) {
  const CallError error = ReadCallError(
      RichError(grpc::StatusCode::INVALID_ARGUMENT, "the picture is damaged", "DAMAGED_IMAGE",
                {{"picture.encoded", "ends within the scan"}}, std::chrono::milliseconds(1250)));
  EXPECT_EQ(error.code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error.message, "the picture is damaged");
  EXPECT_EQ(error.reason, "DAMAGED_IMAGE");
  ASSERT_EQ(error.field_violations.size(), 1u);
  EXPECT_EQ(error.field_violations[0].field, "picture.encoded");
  EXPECT_EQ(error.field_violations[0].description, "ends within the scan");
  EXPECT_EQ(error.retry_delay, std::chrono::milliseconds(1250));
}

TEST(ReadCallError, TakesPlainStatusesAndDamagedDetails) {
  const CallError plain = ReadCallError(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone"));
  EXPECT_EQ(plain.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(plain.reason, "");
  EXPECT_EQ(plain.retry_delay, std::nullopt);
  const CallError damaged =
      ReadCallError(grpc::Status(grpc::StatusCode::INTERNAL, "oh", "\xff\xff\xff"));
  EXPECT_EQ(damaged.message, "oh");
  EXPECT_TRUE(damaged.field_violations.empty());
}

TEST(ToText, SaysEverythingOnOneLine) {
  const CallError error = ReadCallError(RichError(
      grpc::StatusCode::INVALID_ARGUMENT, "two fields are wrong", "INVALID_FIELD",
      {{"options.score_threshold", "2 is above 1"}, {"task", "7 is unknown"}}, std::nullopt));
  EXPECT_EQ(ToText(error),
            "INVALID_ARGUMENT: two fields are wrong [INVALID_FIELD] (options.score_threshold: 2 is "
            "above 1; task: 7 is unknown)");
  EXPECT_EQ(ToText(MakeCallError(absl::NotFoundError("no such file"))), "NOT_FOUND: no such file");
}

TEST(ToText, SaysNothingTwice) {
  const CallError error = ReadCallError(
      RichError(grpc::StatusCode::INVALID_ARGUMENT, "`task`: 7 is unknown", "INVALID_FIELD",
                {{"task", "7 is unknown"}, {"options.compat", "7 is unknown"}}, std::nullopt));
  EXPECT_EQ(
      ToText(error),
      "INVALID_ARGUMENT: `task`: 7 is unknown [INVALID_FIELD] (options.compat: 7 is unknown)");
}

}  // namespace
}  // namespace deform::client
