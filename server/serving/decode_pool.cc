#include "serving/decode_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "batching/batch_policy.h"

namespace deform::serving {

DecodePool::DecodePool(int threads, size_t capacity, base::Clock* clock)
    : threads_(threads), capacity_(capacity), clock_(clock), workers_(threads) {}

absl::Status DecodePool::Post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (waiting_ >= capacity_) {
      return base::MakeError(
          absl::StatusCode::kResourceExhausted,
          absl::StrCat("the queue for decoding is full: ", waiting_, " pictures wait"),
          {.reason = "QUEUE_FULL",
           .field_violations = {},
           .retry_after =
               batching::RetryAfter(static_cast<int64_t>(waiting_), threads_, task_time_)});
    }
    ++waiting_;
  }
  workers_.Post([this, task = std::move(task)] { RunTask(task); });
  return absl::OkStatus();
}

void DecodePool::RunTask(const std::function<void()>& task) {
  {
    std::lock_guard lock(mutex_);
    --waiting_;
  }
  const base::TimePoint begin = clock_->Now();
  task();
  const base::Duration taken = clock_->Now() - begin;
  std::lock_guard lock(mutex_);
  task_time_ = task_time_ == base::Duration{} ? taken : (4 * task_time_ + taken) / 5;
}

}  // namespace deform::serving
