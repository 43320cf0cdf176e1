#include "app/stop_signals.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>
#include <utility>

namespace deform::app {
namespace {

sigset_t BothSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void HoldStopSignals() {
  const sigset_t signals = BothSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

StopSignals::StopSignals(std::function<void(int signal)> on_stop)
    : on_stop_(std::move(on_stop)), thread_([this] { Wait(); }) {}

StopSignals::~StopSignals() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);  // wakes its sigwait
  thread_.join();
}

void StopSignals::Wait() {
  const sigset_t signals = BothSignals();
  bool stopping = false;
  while (true) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) continue;
    if (ending_) return;
    if (stopping) std::_Exit(128 + signal);
    stopping = true;
    on_stop_(signal);
  }
}

}  // namespace deform::app
