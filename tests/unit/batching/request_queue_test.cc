#include "batching/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace deform::batching {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Queue = RequestQueue<std::string>;
using Result = Queue::PushResult;

class RequestQueueTest : public ::testing::Test {
 protected:
  Result Push(std::string name, int rows = 1, base::TimePoint deadline = base::TimePoint::max(),
              base::CancellationPtr cancellation = nullptr) {
    return queue_.Push({.payload = std::move(name),
                        .rows = rows,
                        .deadline = deadline,
                        .cancellation = std::move(cancellation),
                        .enqueued = {}},
                       clock_.Now());
  }
  base::TimePoint In(int ms) const { return clock_.Now() + milliseconds(ms); }

  static std::vector<std::string> Names(const std::vector<Queue::Entry>& entries) {
    std::vector<std::string> names;
    for (const auto& entry : entries) names.push_back(entry.payload);
    return names;
  }
  static std::vector<std::pair<std::string, DropReason>> Names(
      const std::vector<Queue::Dropped>& dropped) {
    std::vector<std::pair<std::string, DropReason>> names;
    for (const auto& drop : dropped) names.emplace_back(drop.entry.payload, drop.reason);
    return names;
  }
  std::vector<std::string> Take(int max_rows) {
    return Names(queue_.TakeBatch(clock_.Now(), max_rows).batch);
  }

  base::ManualClock clock_;
  Queue queue_{{.max_batch = 4, .max_queue_delay = milliseconds(2), .capacity = 4}};
};

TEST_F(RequestQueueTest, GivesBatchesInTheOrderOfArrival) {
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(Push(name), Result::kQueued);
  EXPECT_THAT(Take(2), ElementsAre("a", "b"));
  EXPECT_EQ(Push("d"), Result::kQueued);
  EXPECT_THAT(Take(2), ElementsAre("c", "d"));
  EXPECT_TRUE(queue_.empty());
  EXPECT_THAT(Take(2), IsEmpty());
}

TEST_F(RequestQueueTest, RefusesWhenFullAndLeavesTheEntryToItsOwner) {
  for (const char* name : {"a", "b", "c", "d"}) EXPECT_EQ(Push(name), Result::kQueued);
  Queue::Entry entry{.payload = "a name too long for the small-string optimisation"};
  EXPECT_EQ(queue_.Push(std::move(entry), clock_.Now()), Result::kFull);
  EXPECT_EQ(entry.payload, "a name too long for the small-string optimisation");
  EXPECT_EQ(queue_.size(), 4u);
  Take(1);
  EXPECT_EQ(queue_.Push(std::move(entry), clock_.Now()), Result::kQueued);
}

TEST_F(RequestQueueTest, RefusesWhatIsTooLateAlready) {
  auto cancelled = std::make_shared<base::Cancellation>();
  cancelled->Cancel();
  EXPECT_EQ(Push("past", 1, In(-1)), Result::kExpired);
  EXPECT_EQ(Push("now", 1, In(0)), Result::kExpired);
  EXPECT_EQ(Push("cancelled", 1, In(10), cancelled), Result::kCancelled);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.waiting_rows(), 0);
}

TEST_F(RequestQueueTest, KeepsTheRowsOfARequestTogether) {
  struct Case {
    const char* what;
    std::vector<int> rows;
    std::vector<size_t> batches;  // number of entries in each batch of at most 4 rows
  };
  const Case cases[] = {
      {"they fit exactly", {2, 2, 4}, {2, 1}},
      {"one that doesn't fit goes with the next batch", {3, 2, 1}, {1, 2}},
      {"a later one doesn't overtake it", {3, 2, 1, 1}, {1, 3}},
      {"one larger than a batch goes alone", {1, 6, 1}, {1, 1, 1}},
      {"one larger than a batch goes alone at the head too", {6, 1, 1}, {1, 2}},
  };
  for (const Case& c : cases) {
    for (int rows : c.rows) ASSERT_EQ(Push("x", rows), Result::kQueued) << c.what;
    for (size_t entries : c.batches) EXPECT_EQ(Take(4).size(), entries) << c.what;
    EXPECT_TRUE(queue_.empty()) << c.what;
    EXPECT_EQ(queue_.waiting_rows(), 0) << c.what;
  }
}

TEST_F(RequestQueueTest, SweepRemovesExpiredAndCancelledWhereverTheyAre) {
  auto cancellation = std::make_shared<base::Cancellation>();
  Push("expires first", 1, In(5));
  Push("stays");
  Push("is cancelled", 1, In(50), cancellation);
  Push("expires last", 1, In(20));
  EXPECT_EQ(queue_.EarliestDeadline(), In(5));
  EXPECT_THAT(queue_.Sweep(clock_.Now()), IsEmpty());

  clock_.Advance(milliseconds(5));
  EXPECT_THAT(Names(queue_.Sweep(clock_.Now())),
              ElementsAre(std::pair("expires first", DropReason::kExpired)));
  EXPECT_EQ(queue_.EarliestDeadline(), In(15));

  cancellation->Cancel();
  clock_.Advance(milliseconds(15));
  EXPECT_THAT(Names(queue_.Sweep(clock_.Now())),
              ElementsAre(std::pair("is cancelled", DropReason::kCancelled),
                          std::pair("expires last", DropReason::kExpired)));
  EXPECT_EQ(queue_.EarliestDeadline(), base::TimePoint::max());
  EXPECT_EQ(queue_.waiting_rows(), 1);
  EXPECT_THAT(Take(4), ElementsAre("stays"));
}

TEST_F(RequestQueueTest, SweepMakesRoom) {
  auto cancellation = std::make_shared<base::Cancellation>();
  for (const char* name : {"a", "b", "c"}) Push(name);
  Push("d", 1, base::TimePoint::max(), cancellation);
  EXPECT_EQ(Push("e"), Result::kFull);
  cancellation->Cancel();
  EXPECT_EQ(queue_.Sweep(clock_.Now()).size(), 1u);
  EXPECT_EQ(Push("e"), Result::kQueued);
}

TEST_F(RequestQueueTest, DispatchLooksAgain) {
  auto cancellation = std::make_shared<base::Cancellation>();
  Push("cancelled", 1, base::TimePoint::max(), cancellation);
  Push("a");
  Push("expired", 1, In(3));
  Push("b");
  EXPECT_THAT(queue_.Sweep(clock_.Now()), IsEmpty());
  cancellation->Cancel();
  clock_.Advance(milliseconds(3));
  Queue::Taken taken = queue_.TakeBatch(clock_.Now(), 4);
  EXPECT_THAT(Names(taken.batch), ElementsAre("a", "b"));
  EXPECT_THAT(Names(taken.dropped), ElementsAre(std::pair("cancelled", DropReason::kCancelled),
                                                std::pair("expired", DropReason::kExpired)));
  EXPECT_EQ(queue_.waiting_rows(), 0);
}

TEST_F(RequestQueueTest, IsDueByTheOldestThatStillWaits) {
  const base::TimePoint start = clock_.Now();
  auto cancellation = std::make_shared<base::Cancellation>();
  Push("oldest", 1, base::TimePoint::max(), cancellation);
  EXPECT_EQ(queue_.DueAt(), base::TimePoint::min());
  clock_.Advance(milliseconds(1));
  Push("second");
  Push("third");
  EXPECT_EQ(queue_.DueAt(), start + milliseconds(2));
  cancellation->Cancel();
  queue_.Sweep(clock_.Now());
  EXPECT_EQ(queue_.DueAt(), start + milliseconds(3));
  Push("two rows", 2);
  EXPECT_EQ(queue_.DueAt(), base::TimePoint::min());
}

TEST(RequestQueue, CarriesPayloadsThatOnlyMove) {
  RequestQueue<std::unique_ptr<int>> queue{BatchPolicy{}};
  queue.Push({.payload = std::make_unique<int>(1)}, {});
  queue.Push({.payload = std::make_unique<int>(2)}, {});
  queue.Sweep({});
  auto taken = queue.TakeBatch({}, 8);
  ASSERT_EQ(taken.batch.size(), 2u);
  EXPECT_EQ(*taken.batch[1].payload, 2);
}

}  // namespace
}  // namespace deform::batching
