#include "batching/batch_policy.h"

#include <gtest/gtest.h>

#include <limits>

#include "batching/drop_reason.h"

namespace deform::batching {
namespace {

using std::chrono::milliseconds;

constexpr base::TimePoint kArrival{milliseconds(1000)};

TEST(BatchDueAt, TellsWhenABatchIsDue) {
  struct Case {
    const char* what;
    size_t requests;
    int64_t rows;
    base::TimePoint due;
  };
  const BatchPolicy policy{.max_batch = 4, .max_queue_delay = milliseconds(2), .capacity = 16};
  const Case cases[] = {
      {"one request alone goes at once", 1, 1, base::TimePoint::min()},
      {"one request of several rows alone goes at once", 1, 3, base::TimePoint::min()},
      {"two wait for a third until the oldest has waited its time", 2, 2,
       kArrival + milliseconds(2)},
      {"one row less than a batch still waits", 3, 3, kArrival + milliseconds(2)},
      {"a full batch goes at once", 4, 4, base::TimePoint::min()},
      {"rows fill a batch, not requests", 2, 4, base::TimePoint::min()},
      {"more than a batch goes at once", 5, 9, base::TimePoint::min()},
  };
  for (const Case& c : cases)
    EXPECT_EQ(BatchDueAt(policy, c.requests, c.rows, kArrival), c.due) << c.what;
}

TEST(BatchDueAt, AnEndlessDelayDoesNotWrapAround) {
  const BatchPolicy policy{
      .max_batch = 4, .max_queue_delay = base::Duration::max(), .capacity = 16};
  EXPECT_EQ(BatchDueAt(policy, 2, 2, kArrival), base::TimePoint::max());
}

TEST(RetryAfter, IsTheTimeOfTheBatchesThatWait) {
  struct Case {
    int64_t waiting;
    int at_once;
    milliseconds batch_time, expected;
  };
  const Case cases[] = {
      {128, 8, milliseconds(50), milliseconds(800)},
      {129, 8, milliseconds(50), milliseconds(850)},  // one row more is one batch more
      {1, 8, milliseconds(50), milliseconds(50)},
      {0, 8, milliseconds(50), milliseconds(50)},
      {16, 8, milliseconds(2), milliseconds(10)},            // never less than 10 ms
      {128, 8, milliseconds(0), milliseconds(10)},           // nothing measured yet
      {128, 1, milliseconds(60'000), milliseconds(30'000)},  // never more than 30 s
      {std::numeric_limits<int64_t>::max() / 2, 1, milliseconds(60'000), milliseconds(30'000)},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(RetryAfter(c.waiting, c.at_once, c.batch_time), c.expected)
        << c.waiting << " rows, " << c.at_once << " at once, " << c.batch_time.count() << " ms";
  }
}

TEST(WhyDrop, ARequestExpiresAtItsDeadlineAndCancellationComesFirst) {
  auto cancellation = std::make_shared<base::Cancellation>();
  EXPECT_EQ(WhyDrop(kArrival, nullptr, kArrival - base::Duration(1)), std::nullopt);
  EXPECT_EQ(WhyDrop(kArrival, nullptr, kArrival), DropReason::kExpired);
  EXPECT_EQ(WhyDrop(base::TimePoint::max(), cancellation, kArrival), std::nullopt);
  cancellation->Cancel();
  EXPECT_EQ(WhyDrop(base::TimePoint::max(), cancellation, kArrival), DropReason::kCancelled);
  EXPECT_EQ(WhyDrop(kArrival, cancellation, kArrival), DropReason::kCancelled);
}

TEST(DropReasonName, IsTheLabelOfTheMetric) {
  EXPECT_EQ(DropReasonName(DropReason::kCancelled), "cancelled");
  EXPECT_EQ(DropReasonName(DropReason::kExpired), "expired");
}

}  // namespace
}  // namespace deform::batching
