// Random histories of a RequestQueue, checked against what must hold in each of them.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "batching/request_queue.h"

namespace deform::batching {
namespace {

using Queue = RequestQueue<int>;

struct Request {
  int rows;
  base::TimePoint deadline;
  base::CancellationPtr cancellation;
};

class Simulation {
 public:
  explicit Simulation(uint32_t seed) : random_(seed) {
    policy_.max_batch = Pick(1, 8);
    policy_.max_queue_delay = std::chrono::microseconds(Pick(0, 5000));
    policy_.capacity = Pick(1, 24);
    queue_.emplace(policy_);
  }

  void Step() {
    switch (Pick(0, 9)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Push();
      case 4:
        return Cancel();
      case 5:
        return clock_.Advance(std::chrono::microseconds(Pick(0, 2000)));
      case 6:
        for (auto& dropped : queue_->Sweep(clock_.Now())) CheckDropped(dropped);
        return CheckSwept();
      default:
        return Dispatch();
    }
  }

  void Drain() {
    while (!queue_->empty()) Dispatch();
    EXPECT_TRUE(waiting_.empty()) << "lost: " << waiting_.size();
  }

  void CheckSizes() const {
    int64_t rows = 0;
    for (const auto& [id, request] : waiting_) rows += request.rows;
    EXPECT_EQ(queue_->size(), waiting_.size());
    EXPECT_EQ(queue_->waiting_rows(), rows);
    EXPECT_LE(queue_->size(), policy_.capacity);
  }

  int dispatched() const { return dispatched_; }
  int dropped() const { return dropped_; }
  int refused() const { return refused_; }

 private:
  int Pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  bool NobodyWaits(const Request& request) const {
    return request.cancellation->cancelled() || request.deadline <= clock_.Now();
  }

  void Push() {
    Request request{Pick(0, 3) == 0 ? Pick(1, 10) : 1,
                    Pick(0, 1) == 0 ? base::TimePoint::max()
                                    : clock_.Now() + std::chrono::microseconds(Pick(-50, 4000)),
                    std::make_shared<base::Cancellation>()};
    const int id = next_id_++;
    const auto result = queue_->Push({.payload = id,
                                      .rows = request.rows,
                                      .deadline = request.deadline,
                                      .cancellation = request.cancellation,
                                      .enqueued = {}},
                                     clock_.Now());
    if (request.deadline <= clock_.Now()) {
      EXPECT_EQ(result, Queue::PushResult::kExpired);
      ++refused_;
    } else if (waiting_.size() >= policy_.capacity) {
      EXPECT_EQ(result, Queue::PushResult::kFull);
      ++refused_;
    } else {
      EXPECT_EQ(result, Queue::PushResult::kQueued);
      waiting_[id] = std::move(request);
    }
  }

  void Cancel() {
    if (waiting_.empty()) return;
    std::next(waiting_.begin(), Pick(0, static_cast<int>(waiting_.size()) - 1))
        ->second.cancellation->Cancel();
  }

  void CheckDropped(const Queue::Dropped& dropped) {
    const auto found = waiting_.find(dropped.entry.payload);
    ASSERT_NE(found, waiting_.end()) << "dropped twice, or never pushed";
    EXPECT_EQ(dropped.reason, found->second.cancellation->cancelled() ? DropReason::kCancelled
                                                                      : DropReason::kExpired);
    EXPECT_TRUE(NobodyWaits(found->second)) << "dropped though somebody waits";
    waiting_.erase(found);
    ++dropped_;
  }

  void CheckSwept() const {
    base::TimePoint earliest = base::TimePoint::max();
    for (const auto& [id, request] : waiting_) {
      EXPECT_FALSE(NobodyWaits(request)) << "left behind";
      earliest = std::min(earliest, request.deadline);
    }
    EXPECT_EQ(queue_->EarliestDeadline(), earliest);
  }

  void Dispatch() {
    Queue::Taken taken = queue_->TakeBatch(clock_.Now(), policy_.max_batch);
    for (const Queue::Dropped& dropped : taken.dropped) CheckDropped(dropped);
    int64_t rows = 0;
    for (const Queue::Entry& entry : taken.batch) {
      // Ids grow with arrival: the head of those that still wait is the smallest.
      ASSERT_FALSE(waiting_.empty()) << "made up";
      ASSERT_EQ(entry.payload, waiting_.begin()->first) << "out of order, twice, or made up";
      EXPECT_FALSE(NobodyWaits(waiting_.begin()->second)) << "dispatched for nobody";
      EXPECT_EQ(entry.rows, waiting_.begin()->second.rows);
      rows += entry.rows;
      waiting_.erase(waiting_.begin());
      ++dispatched_;
    }
    if (taken.batch.size() > 1) {
      EXPECT_LE(rows, policy_.max_batch);
    }
    // As many as fit: the next one that somebody waits for would not have.
    if (!waiting_.empty()) {
      const Request& next = waiting_.begin()->second;
      EXPECT_GT(rows + next.rows, policy_.max_batch);
    }
  }

  std::mt19937 random_;
  base::ManualClock clock_;
  BatchPolicy policy_;
  std::optional<Queue> queue_;
  std::map<int, Request> waiting_;  // by id: the model that the queue is compared with
  int next_id_ = 0;
  int dispatched_ = 0, dropped_ = 0, refused_ = 0;
};

TEST(RequestQueueSimulation, NothingIsLostDuplicatedReorderedOrRunForNobody) {
  int dispatched = 0, dropped = 0, refused = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Simulation simulation(seed);
    for (int step = 0; step < 400; ++step) {
      simulation.Step();
      simulation.CheckSizes();
      if (::testing::Test::HasFailure()) return;
    }
    simulation.Drain();
    if (::testing::Test::HasFailure()) return;
    dispatched += simulation.dispatched();
    dropped += simulation.dropped();
    refused += simulation.refused();
  }
  // The histories did go through all ends.
  EXPECT_GT(dispatched, 10'000);
  EXPECT_GT(dropped, 1'000);
  EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace deform::batching
