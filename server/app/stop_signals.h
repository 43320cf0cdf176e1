#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace deform::app {

// From now on SIGTERM and SIGINT wait for a StopSignals instead of ending the process. REQUIRES: no
// other thread was started, as all threads are to inherit this.
void HoldStopSignals();

// SIGTERM and SIGINT as calls: the first, also one that came since HoldStopSignals, calls `on_stop`
// on a thread of this object, with no limits on what it may do; a second ends the process at once,
// with exit code 128 + its number. REQUIRES: HoldStopSignals was called; one at a time.
class StopSignals {
 public:
  explicit StopSignals(std::function<void(int signal)> on_stop);
  // Ends the thread; the signals stay held.
  ~StopSignals();

 private:
  void Wait();

  const std::function<void(int signal)> on_stop_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace deform::app
