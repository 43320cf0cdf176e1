#include "calls/retry_budget.h"

#include <chrono>

#include "base/clock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using std::chrono::milliseconds;

CallError Refusal(absl::StatusCode code, std::optional<milliseconds> delay) {
  CallError error;
  error.code = code;
  error.retry_delay = delay;
  return error;
}

const CallError kQueueFull = Refusal(absl::StatusCode::kResourceExhausted, milliseconds(300));

TEST(RetryBudget, WaitsAsLongAsTheServerAsked) {
  base::ManualClock clock;
  RetryBudget budget(clock, milliseconds(1000), 10);
  EXPECT_EQ(budget.DelayAfter(kQueueFull), milliseconds(300));
  EXPECT_EQ(budget.DelayAfter(Refusal(absl::StatusCode::kUnavailable, milliseconds(20))),
            milliseconds(20));
}

TEST(RetryBudget, NeverRetriesWithoutBeingAsked) {
  base::ManualClock clock;
  RetryBudget budget(clock, milliseconds(1000), 10);
  EXPECT_EQ(budget.DelayAfter(Refusal(absl::StatusCode::kResourceExhausted, std::nullopt)),
            std::nullopt);
  EXPECT_EQ(budget.DelayAfter(Refusal(absl::StatusCode::kUnavailable, std::nullopt)), std::nullopt);
  EXPECT_EQ(budget.DelayAfter(Refusal(absl::StatusCode::kInvalidArgument, milliseconds(1))),
            std::nullopt);
  EXPECT_EQ(budget.DelayAfter(Refusal(absl::StatusCode::kDeadlineExceeded, milliseconds(1))),
            std::nullopt);
}

TEST(RetryBudget, StopsWhenTheDelayWouldOutlastTheTimeout) {
  base::ManualClock clock;
  RetryBudget budget(clock, milliseconds(1000), 10);
  clock.Advance(milliseconds(699));
  EXPECT_EQ(budget.Remaining(), milliseconds(301));
  EXPECT_EQ(budget.DelayAfter(kQueueFull), milliseconds(300));
  clock.Advance(milliseconds(1));
  EXPECT_EQ(budget.DelayAfter(kQueueFull), std::nullopt);
  clock.Advance(milliseconds(5000));
  EXPECT_EQ(budget.Remaining(), milliseconds(0));
}

TEST(RetryBudget, StopsAfterTheLastAttempt) {
  base::ManualClock clock;
  RetryBudget budget(clock, std::chrono::hours(1), 3);
  EXPECT_NE(budget.DelayAfter(kQueueFull), std::nullopt);
  EXPECT_NE(budget.DelayAfter(kQueueFull), std::nullopt);
  EXPECT_EQ(budget.DelayAfter(kQueueFull), std::nullopt);
  EXPECT_EQ(budget.attempts(), 3);
}

TEST(RetryBudget, NeverSpinsOnADelayOfNothing) {
  base::ManualClock clock;
  RetryBudget budget(clock, milliseconds(1000), 10);
  EXPECT_EQ(budget.DelayAfter(Refusal(absl::StatusCode::kResourceExhausted, milliseconds(0))),
            milliseconds(1));
}

}  // namespace
}  // namespace deform::client
