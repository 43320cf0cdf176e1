#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/clock.h"
#include "base/metrics.h"
#include "batching/batch_policy.h"
#include "lifecycle/servable_model.h"
#include "serving/batch_runner.h"

namespace deform::serving {

// The batch runner of each loaded model version, made when the version is first asked for and kept,
// with a handle of the version, as long as the table. Thread-safe.
class RunnerTable {
 public:
  RunnerTable(batching::BatchPolicy policy, base::Clock* clock, base::Metrics* metrics)
      : policy_(policy), clock_(clock), metrics_(metrics) {}

  // Valid as long as the table.
  BatchRunner& RunnerOf(const lifecycle::ModelHandle& model) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<BatchRunner>& runner = runners_[model.get()];
    if (!runner) runner = std::make_unique<BatchRunner>(model, policy_, clock_, metrics_);
    return *runner;
  }

 private:
  const batching::BatchPolicy policy_;
  base::Clock* const clock_;
  base::Metrics* const metrics_;
  std::mutex mutex_;
  // By address, not by name and version: a version that is loaded again is another network. The
  // runner's handle keeps an address from being used again.
  std::unordered_map<const lifecycle::ServableModel*, std::unique_ptr<BatchRunner>> runners_;
};

}  // namespace deform::serving
