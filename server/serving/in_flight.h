#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace deform::serving {

// Counts the requests that were accepted and not yet answered, and closes the door. Thread-safe.
class InFlight {
 public:
  explicit InFlight(base::Clock* clock) : clock_(clock) {}

  // Counts one more, unless the door is closed. Each true is paired with one Leave.
  bool Enter() {
    std::lock_guard lock(mutex_);
    if (closed_) return false;
    ++count_;
    return true;
  }

  void Leave() {
    // Under the lock: who waits for idle may destroy this as soon as it can see the count.
    std::lock_guard lock(mutex_);
    if (--count_ == 0) idle_.notify_all();
  }

  void Close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }

  // Waits until the count is 0, or `until`. True when it is.
  bool WaitIdle(base::TimePoint until) {
    std::unique_lock lock(mutex_);
    while (count_ > 0) {
      if (clock_->Now() >= until) return false;
      clock_->WaitUntil(idle_, lock, until);
    }
    return true;
  }

 private:
  base::Clock* const clock_;
  std::mutex mutex_;
  std::condition_variable idle_;
  int64_t count_ = 0;    // guarded by mutex_
  bool closed_ = false;  // guarded by mutex_
};

}  // namespace deform::serving
