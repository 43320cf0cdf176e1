#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace deform::batching {

struct BatchPolicy {
  int max_batch = 8;  // rows that requests are joined up to
  base::Duration max_queue_delay = std::chrono::milliseconds(2);
  size_t capacity = 128;  // requests that may wait; one more is refused
};

// When the batch at the head of a queue is due once an instance is free, as a pure function of what
// waits: at once when one request waits alone or max_batch rows do, else when the oldest has waited
// max_queue_delay. TimePoint::min() means now. REQUIRES: waiting_requests >= 1.
base::TimePoint BatchDueAt(const BatchPolicy& policy, size_t waiting_requests, int64_t waiting_rows,
                           base::TimePoint oldest);

// After how long a request that found no room may try again: what it takes to work off `waiting`
// units, `at_once` of them in `batch_time` (0 when none was measured), within 10 ms and 30 s.
// REQUIRES: at_once >= 1.
std::chrono::milliseconds RetryAfter(int64_t waiting, int at_once, base::Duration batch_time);

}  // namespace deform::batching
