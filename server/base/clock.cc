#include "base/clock.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace deform::base {

TimePoint SteadyClock::Now() const { return std::chrono::steady_clock::now(); }

void SteadyClock::WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                            TimePoint deadline) {
  // wait_until(max()) overflows where the library converts between clocks.
  if (deadline == TimePoint::max()) {
    condition.wait(lock);
  } else {
    condition.wait_until(lock, deadline);
  }
}

TimePoint ManualClock::Now() const {
  std::lock_guard lock(mutex_);
  return now_;
}

void ManualClock::WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                            TimePoint deadline) {
  std::list<Waiter>::iterator waiter;
  {
    std::lock_guard own_lock(mutex_);
    if (now_ >= deadline) return;
    waiter = waiters_.insert(waiters_.end(),
                             {&condition, lock.mutex(), /*timed=*/deadline != TimePoint::max()});
    waiters_changed_.notify_all();
  }
  condition.wait(lock);
  // Advance may be about to lock the caller's mutex in order to wake this waiter: it has to be let
  // through before the mutex and the condition may go away with the caller.
  lock.unlock();
  {
    std::unique_lock own_lock(mutex_);
    waiters_changed_.wait(own_lock, [&] { return waiter->wakers == 0; });
    waiters_.erase(waiter);
  }
  lock.lock();
}

void ManualClock::Advance(Duration by) {
  std::vector<std::list<Waiter>::iterator> woken;
  {
    std::lock_guard lock(mutex_);
    now_ += by;
    for (auto waiter = waiters_.begin(); waiter != waiters_.end(); ++waiter) {
      ++waiter->wakers;
      woken.push_back(waiter);
    }
  }
  for (auto waiter : woken) {
    // With the waiter's mutex held it is either inside its wait or has already left it: a
    // notification can't fall between its look at the time and its wait.
    std::lock_guard waiter_lock(*waiter->mutex);
    waiter->condition->notify_all();
  }
  std::lock_guard lock(mutex_);
  for (auto waiter : woken) --waiter->wakers;
  waiters_changed_.notify_all();
}

void ManualClock::AwaitTimedWaiters(int count) {
  std::unique_lock lock(mutex_);
  waiters_changed_.wait(lock, [&] {
    return std::count_if(waiters_.begin(), waiters_.end(),
                         [](const Waiter& waiter) { return waiter.timed; }) >= count;
  });
}

}  // namespace deform::base
