#include "base/clock.h"

#include <thread>

#include "gtest/gtest.h"

namespace deform::base {
namespace {

using std::chrono::milliseconds;

// Waits, in a thread of its own, until the clock reads `deadline` or Stop is called.
class Sleeper {
 public:
  Sleeper(Clock* clock, TimePoint deadline)
      : thread_([this, clock, deadline] {
          std::unique_lock lock(mutex_);
          while (!stopped_ && clock->Now() < deadline) clock->WaitUntil(condition_, lock, deadline);
        }) {}
  void Stop() {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    condition_.notify_all();
  }
  void Join() { thread_.join(); }

 private:
  std::mutex mutex_;
  std::condition_variable condition_;
  bool stopped_ = false;
  std::thread thread_;
};

TEST(ManualClockTest, StandsStillUntilAdvanced) {
  ManualClock clock;
  const TimePoint start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(milliseconds(5));
  EXPECT_EQ(clock.Now() - start, milliseconds(5));
}

TEST(ManualClockTest, AdvanceToTheDeadlineWakesTheWaiter) {
  ManualClock clock;
  Sleeper sleeper(&clock, clock.Now() + milliseconds(10));
  clock.AwaitTimedWaiters(1);
  clock.Advance(milliseconds(10));
  sleeper.Join();
}

TEST(ManualClockTest, AdvanceShortOfTheDeadlineLeavesTheWaiterWaiting) {
  ManualClock clock;
  Sleeper sleeper(&clock, clock.Now() + milliseconds(10));
  clock.AwaitTimedWaiters(1);
  clock.Advance(milliseconds(9));
  clock.AwaitTimedWaiters(1);  // it looked, and waits again
  clock.Advance(milliseconds(1));
  sleeper.Join();
}

TEST(ManualClockTest, NotificationWakesAWaiterWithoutADeadline) {
  ManualClock clock;
  Sleeper sleeper(&clock, TimePoint::max());
  sleeper.Stop();
  sleeper.Join();
}

TEST(ManualClockTest, WaitersMayGoWhileTheClockAdvances) {
  for (int round = 0; round < 200; ++round) {
    ManualClock clock;
    auto first = std::make_unique<Sleeper>(&clock, clock.Now() + milliseconds(1));
    auto second = std::make_unique<Sleeper>(&clock, clock.Now() + milliseconds(2));
    std::thread stopper([&] { second->Stop(); });
    clock.Advance(milliseconds(1));
    first->Join();
    first.reset();
    stopper.join();
    second->Join();
  }
}

TEST(SteadyClockTest, ADeadlineInThePastDoesNotWait) {
  SteadyClock clock;
  std::mutex mutex;
  std::condition_variable condition;
  std::unique_lock lock(mutex);
  clock.WaitUntil(condition, lock, clock.Now() - milliseconds(1));
  EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
}  // namespace deform::base
