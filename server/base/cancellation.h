#pragma once

#include <atomic>
#include <memory>

namespace deform::base {

// Told once that nobody waits for the work any more. Shared between the call that owns the
// request and whoever works on it. Thread-safe.
class Cancellation {
 public:
  void Cancel() { cancelled_.store(true, std::memory_order_release); }
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

 private:
  std::atomic<bool> cancelled_{false};
};

using CancellationPtr = std::shared_ptr<Cancellation>;

}  // namespace deform::base
