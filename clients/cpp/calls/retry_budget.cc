#include "calls/retry_budget.h"

#include <algorithm>

namespace deform::client {

RetryBudget::RetryBudget(const base::Clock& clock, base::Duration timeout, int max_attempts)
    : clock_(clock), deadline_(clock.Now() + timeout), max_attempts_(max_attempts) {}

base::Duration RetryBudget::Remaining() const {
  return std::max(base::Duration::zero(), deadline_ - clock_.Now());
}

std::optional<std::chrono::milliseconds> RetryBudget::DelayAfter(const CallError& error) {
  ++attempts_;
  const bool can_pass = error.code == absl::StatusCode::kResourceExhausted ||
                        error.code == absl::StatusCode::kUnavailable;
  if (!can_pass || !error.retry_delay || attempts_ >= max_attempts_) return std::nullopt;
  // A delay of nothing would be a busy loop against a server that is full.
  const auto delay = std::max(*error.retry_delay, std::chrono::milliseconds(1));
  if (delay >= Remaining()) return std::nullopt;
  return delay;
}

}  // namespace deform::client
