#include "base/error.h"

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::base {
namespace {

using std::chrono::milliseconds;

TEST(ErrorTest, DetailsComeBackAsTheyWerePut) {
  const std::string any_bytes("\0\xff\"\n", 4);
  const absl::Status status = MakeError(absl::StatusCode::kResourceExhausted, "the queue is full",
                                        {.reason = "QUEUE_FULL",
                                         .field_violations = {{"a.b[0]", any_bytes}, {"", "c"}},
                                         .retry_after = milliseconds(250)});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "the queue is full");
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, "QUEUE_FULL");
  EXPECT_EQ(details->retry_after, milliseconds(250));
  ASSERT_EQ(details->field_violations.size(), 2u);
  EXPECT_EQ(details->field_violations[0].field, "a.b[0]");
  EXPECT_EQ(details->field_violations[0].description, any_bytes);
  EXPECT_EQ(details->field_violations[1].field, "");
  EXPECT_EQ(details->field_violations[1].description, "c");
}

TEST(ErrorTest, NoRetryTimeAndARetryTimeOfZeroAreToldApart) {
  const auto without = GetErrorDetails(MakeError(absl::StatusCode::kInternal, "", {}));
  const auto at_once = GetErrorDetails(
      MakeError(absl::StatusCode::kInternal, "",
                {.reason = "", .field_violations = {}, .retry_after = milliseconds(0)}));
  ASSERT_TRUE(without && at_once);
  EXPECT_EQ(without->retry_after, std::nullopt);
  EXPECT_EQ(at_once->retry_after, milliseconds(0));
}

TEST(ErrorTest, APlainStatusHasNoDetails) {
  EXPECT_EQ(GetErrorDetails(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(GetErrorDetails(absl::OkStatus()), std::nullopt);
}

TEST(ErrorTest, InvalidFieldNamesTheFieldInMessageAndViolation) {
  const absl::Status status = InvalidField("options.score_threshold", "is 2, must be 0 to 1");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "`options.score_threshold`: is 2, must be 0 to 1");
  const auto details = GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, "INVALID_FIELD");
  ASSERT_EQ(details->field_violations.size(), 1u);
  EXPECT_EQ(details->field_violations[0].field, "options.score_threshold");
  EXPECT_EQ(details->field_violations[0].description, "is 2, must be 0 to 1");
  EXPECT_EQ(GetErrorDetails(InvalidField("image", "cut", "DAMAGED_IMAGE"))->reason,
            "DAMAGED_IMAGE");
}

absl::StatusOr<int> Half(int number) {
  if (number % 2 != 0) return absl::InvalidArgumentError("odd");
  return number / 2;
}

absl::StatusOr<int> Quarter(int number) {
  DEFORM_ASSIGN_OR_RETURN(const int half, Half(number));
  DEFORM_RETURN_IF_ERROR(Half(half).status());
  return Half(half);
}

TEST(ErrorTest, MacrosPassValuesOnAndReturnErrors) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(7).status().message(), "odd");
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

}  // namespace
}  // namespace deform::base
