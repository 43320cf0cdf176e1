#include "batching/batch_policy.h"

#include <algorithm>

namespace deform::batching {

base::TimePoint BatchDueAt(const BatchPolicy& policy, size_t waiting_requests, int64_t waiting_rows,
                           base::TimePoint oldest) {
  if (waiting_requests <= 1 || waiting_rows >= policy.max_batch) return base::TimePoint::min();
  // A delay that means "for ever" must not wrap around into the past.
  if (policy.max_queue_delay > base::TimePoint::max() - oldest) return base::TimePoint::max();
  return oldest + policy.max_queue_delay;
}

std::chrono::milliseconds RetryAfter(int64_t waiting, int at_once, base::Duration batch_time) {
  constexpr std::chrono::milliseconds kShortest{10};
  constexpr std::chrono::milliseconds kLongest{30'000};
  const int64_t batches = (std::max<int64_t>(waiting, 1) + at_once - 1) / at_once;
  // In floating point: a product of ticks could overflow before it is clamped.
  const double estimate_ms =
      std::chrono::duration<double, std::milli>(batch_time).count() * static_cast<double>(batches);
  if (!(estimate_ms < static_cast<double>(kLongest.count()))) return kLongest;
  return std::max(kShortest, std::chrono::milliseconds(static_cast<int64_t>(estimate_ms + 0.5)));
}

}  // namespace deform::batching
