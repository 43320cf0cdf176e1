#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>

namespace deform::base {

using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// A source of monotonic time that threads can wait on, so that everything that decides by time can
// be tested without sleeping. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual TimePoint Now() const = 0;

  // Waits on `condition` until it is notified or Now() >= deadline; TimePoint::max() means no
  // deadline. May return early (spuriously): callers loop. REQUIRES: `lock` is held.
  virtual void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                         TimePoint deadline) = 0;
};

// The machine's steady clock.
class SteadyClock final : public Clock {
 public:
  TimePoint Now() const override;
  void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                 TimePoint deadline) override;
};

// A clock that moves only when told to; Advance wakes every waiter so that it looks again.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override;
  void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                 TimePoint deadline) override;

  // REQUIRES: no mutex that a waiter waits with is held by the caller.
  void Advance(Duration by);

  // Blocks until at least `count` threads wait with a deadline, so that a test moves the time only
  // once somebody would notice.
  void AwaitTimedWaiters(int count);

 private:
  struct Waiter {
    std::condition_variable* condition;
    std::mutex* mutex;  // that the waiter waits with
    bool timed;
    int wakers = 0;  // calls of Advance that still use the two pointers
  };

  mutable std::mutex mutex_;
  TimePoint now_{};            // guarded by mutex_
  std::list<Waiter> waiters_;  // guarded by mutex_
  std::condition_variable waiters_changed_;
};

}  // namespace deform::base
