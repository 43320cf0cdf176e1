#pragma once

#include <chrono>
#include <optional>

#include "base/clock.h"
#include "calls/call_error.h"

namespace deform::client {

// Decides for one picture whether a failed attempt is made again, and when: only where the server
// asked for it (RetryInfo with RESOURCE_EXHAUSTED or UNAVAILABLE), after the delay it named, while
// attempts and time are left. Not thread-safe.
class RetryBudget {
 public:
  // `timeout` counts from now on and covers every attempt and the waits between them.
  RetryBudget(const base::Clock& clock, base::Duration timeout, int max_attempts);

  // What is left of the timeout; not negative.
  base::Duration Remaining() const;

  // To be called once for each failed attempt: how long to wait before the next one, or nullopt
  // when the error is final.
  std::optional<std::chrono::milliseconds> DelayAfter(const CallError& error);

  int attempts() const { return attempts_; }  // failed so far

 private:
  const base::Clock& clock_;
  base::TimePoint deadline_;
  int max_attempts_;
  int attempts_ = 0;
};

}  // namespace deform::client
