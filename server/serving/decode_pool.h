#pragma once

#include <cstddef>
#include <functional>
#include <mutex>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/worker_pool.h"

namespace deform::serving {

// The workers that turn pictures into the network's inputs, with a bound on what waits for them:
// each that waits holds a whole encoded picture. Thread-safe.
class DecodePool {
 public:
  // REQUIRES: threads >= 1. `clock` outlives the pool.
  DecodePool(int threads, size_t capacity, base::Clock* clock);
  // Runs every task already posted, then joins.
  ~DecodePool() = default;

  // Runs `task` on a worker. RESOURCE_EXHAUSTED, reason QUEUE_FULL with retry_after, when
  // `capacity` tasks wait; `task` is dropped then.
  absl::Status Post(std::function<void()> task);

 private:
  void RunTask(const std::function<void()>& task);

  const int threads_;
  const size_t capacity_;
  base::Clock* const clock_;
  std::mutex mutex_;
  size_t waiting_ = 0;          // guarded by mutex_
  base::Duration task_time_{};  // guarded by mutex_; moving average
  base::WorkerPool workers_;    // last: its tasks use the above
};

}  // namespace deform::serving
