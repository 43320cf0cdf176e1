#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancellation.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "batching/batch_policy.h"
#include "engine/tensor.h"
#include "lifecycle/servable_model.h"

namespace deform::serving {

struct BatchResult {
  std::vector<engine::Tensor> outputs;  // rows of this entry; [n, …] with n as submitted
  base::Duration queue{}, compute{};    // compute: joining the inputs and running the network
  int batch_size = 0;                   // rows that ran together
};

// One entry of a batch: n rows that stay together (1 for a picture, the request's batch for
// tensors), each input [n, …] in the order of the network's inputs.
struct BatchEntry {
  std::vector<engine::Tensor> inputs;
  base::TimePoint deadline = base::TimePoint::max();
  base::CancellationPtr cancellation{};  // may be null
  // Called exactly once if Submit accepted the entry: from the runner's thread or, for an entry
  // dropped to make room, from that of another Submit or CheckRoom. No lock is held. Must be quick:
  // the network stands still meanwhile (post elsewhere).
  std::function<void(absl::StatusOr<BatchResult>)> done;
};

// Owns the queue of one model version and the one thread that runs its network. Thread-safe.
class BatchRunner {
 public:
  // `policy.max_batch` is lowered to the network's. `clock` and `metrics` outlive the runner.
  BatchRunner(lifecycle::ModelHandle model, batching::BatchPolicy policy, base::Clock* clock,
              base::Metrics* metrics);
  // Runs what waits, then joins.
  ~BatchRunner();

  // Queues `entry`; `done` is called with its rows of the batch it ran in, or with the Status that
  // the network failed with, which all entries of that batch get. Entries whose deadline passed
  // (DEADLINE_EXCEEDED) or that were cancelled (CANCELLED) are dropped, in the queue and again at
  // dispatch: their work is never run.
  // Where Submit itself answers an error `done` is not called: RESOURCE_EXHAUSTED, reason
  // QUEUE_FULL with retry_after; DEADLINE_EXCEEDED or CANCELLED when it is too late already;
  // INVALID_ARGUMENT as engine::CheckInputs, so that a bad entry never fails its neighbours.
  absl::Status Submit(BatchEntry entry);

  // The QUEUE_FULL that Submit would answer now, if it would: lets a caller refuse a request
  // before it works on it.
  absl::Status CheckRoom();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deform::serving
