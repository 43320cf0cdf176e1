#include "serving/batch_runner.h"

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "batching/request_queue.h"
#include "pipeline/collate.h"
#include "serving/drop_status.h"

namespace deform::serving {
namespace {

double Seconds(base::Duration duration) { return std::chrono::duration<double>(duration).count(); }

batching::BatchPolicy LowerMaxBatch(batching::BatchPolicy policy, int network_max_batch) {
  policy.max_batch = std::clamp(policy.max_batch, 1, std::max(network_max_batch, 1));
  return policy;
}

// Slicing outputs that lack rows would read past their end.
absl::Status CheckOutputRows(const std::vector<engine::Tensor>& outputs, int64_t rows) {
  for (const engine::Tensor& output : outputs) {
    if (output.shape().empty() || output.shape().front() != rows)
      return absl::InternalError("the network's outputs don't have a row for each of its inputs");
  }
  return absl::OkStatus();
}

}  // namespace

struct BatchRunner::State {
  struct Work {
    std::vector<engine::Tensor> inputs;
    std::function<void(absl::StatusOr<BatchResult>)> done;
  };
  using Queue = batching::RequestQueue<Work>;

  State(lifecycle::ModelHandle model, batching::BatchPolicy policy, base::Clock* clock,
        base::Metrics* metrics);
  ~State();

  void RunBatches();
  void RunBatch(std::vector<Queue::Entry> batch, base::TimePoint dispatched);
  void AnswerDropped(std::vector<Queue::Dropped> dropped);
  prometheus::Counter& DroppedTotal(batching::DropReason reason);
  absl::Status QueueFull();  // REQUIRES: mutex is held
  void UpdateDepth();        // REQUIRES: mutex is held

  const lifecycle::ModelHandle model;
  base::Clock* const clock;
  // Looked up once: a look-up by labels takes a lock that all models share.
  prometheus::Gauge& queue_depth;
  prometheus::Gauge& queue_capacity;
  prometheus::Histogram& queue_wait_seconds;
  prometheus::Histogram& batch_size;
  prometheus::Counter& device_busy_seconds;
  prometheus::Counter& refused_full;
  prometheus::Counter& dropped_cancelled;
  prometheus::Counter& dropped_expired;

  std::mutex mutex;
  std::condition_variable changed;
  Queue queue;                  // guarded by mutex
  size_t shown_depth = 0;       // guarded by mutex; this runner's part of queue_depth
  base::Duration batch_time{};  // guarded by mutex; moving average
  bool stopping = false;        // guarded by mutex
  std::thread thread;           // last: it uses all of the above
};

BatchRunner::State::State(lifecycle::ModelHandle handle, batching::BatchPolicy policy,
                          base::Clock* clock, base::Metrics* metrics)
    : model(std::move(handle)),
      clock(clock),
      queue_depth(metrics->QueueDepth(model->name)),
      queue_capacity(metrics->QueueCapacity(model->name)),
      queue_wait_seconds(metrics->QueueWaitSeconds(model->name)),
      batch_size(metrics->BatchSize(model->name, model->model->device())),
      device_busy_seconds(metrics->DeviceBusySecondsTotal(model->model->device(), model->name)),
      refused_full(metrics->RefusedTotal(model->name, "queue_full")),
      dropped_cancelled(metrics->DroppedTotal(model->name, "cancelled")),
      dropped_expired(metrics->DroppedTotal(model->name, "expired")),
      queue(LowerMaxBatch(policy, model->model->max_batch())) {
  // Added, not set: two versions of a model share the gauges.
  queue_capacity.Increment(static_cast<double>(policy.capacity));
  thread = std::thread([this] { RunBatches(); });
}

BatchRunner::State::~State() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
  queue_capacity.Decrement(static_cast<double>(queue.policy().capacity));
}

void BatchRunner::State::RunBatches() {
  std::unique_lock lock(mutex);
  while (true) {
    const base::TimePoint now = clock->Now();
    std::vector<Queue::Dropped> dropped = queue.Sweep(now);
    std::vector<Queue::Entry> batch;
    if (!queue.empty() && (stopping || queue.DueAt() <= now)) {
      Queue::Taken taken = queue.TakeBatch(now, queue.policy().max_batch);
      batch = std::move(taken.batch);
      std::move(taken.dropped.begin(), taken.dropped.end(), std::back_inserter(dropped));
    }
    if (batch.empty() && dropped.empty()) {
      if (stopping && queue.empty()) return;
      clock->WaitUntil(changed, lock,
                       queue.empty() ? base::TimePoint::max()
                                     : std::min(queue.DueAt(), queue.EarliestDeadline()));
      continue;
    }
    UpdateDepth();
    lock.unlock();
    AnswerDropped(std::move(dropped));
    if (!batch.empty()) RunBatch(std::move(batch), now);
    lock.lock();
  }
}

void BatchRunner::State::RunBatch(std::vector<Queue::Entry> batch, base::TimePoint dispatched) {
  int rows = 0;
  std::vector<const std::vector<engine::Tensor>*> inputs;
  for (const Queue::Entry& entry : batch) {
    rows += entry.rows;
    inputs.push_back(&entry.payload.inputs);
    queue_wait_seconds.Observe(Seconds(dispatched - entry.enqueued));
  }
  batch_size.Observe(rows);

  const std::vector<engine::Tensor> joined = pipeline::Collate(inputs);
  const base::TimePoint run_begin = clock->Now();
  absl::StatusOr<std::vector<engine::Tensor>> outputs = model->model->Run(joined);
  const base::TimePoint run_end = clock->Now();
  device_busy_seconds.Increment(Seconds(run_end - run_begin));
  {
    std::lock_guard lock(mutex);
    const base::Duration taken = run_end - dispatched;
    batch_time = batch_time == base::Duration{} ? taken : (4 * batch_time + taken) / 5;
  }
  absl::Status status = outputs.ok() ? CheckOutputRows(*outputs, rows) : outputs.status();

  int64_t begin = 0;
  for (Queue::Entry& entry : batch) {
    if (status.ok()) {
      BatchResult result;
      result.outputs = pipeline::SliceRows(*outputs, begin, entry.rows);
      result.queue = dispatched - entry.enqueued;
      result.compute = run_end - dispatched;
      result.batch_size = rows;
      entry.payload.done(std::move(result));
    } else {
      entry.payload.done(status);
    }
    begin += entry.rows;
  }
}

void BatchRunner::State::AnswerDropped(std::vector<Queue::Dropped> dropped) {
  for (Queue::Dropped& drop : dropped) {
    DroppedTotal(drop.reason).Increment();
    drop.entry.payload.done(DropStatus(drop.reason));
  }
}

prometheus::Counter& BatchRunner::State::DroppedTotal(batching::DropReason reason) {
  return reason == batching::DropReason::kCancelled ? dropped_cancelled : dropped_expired;
}

absl::Status BatchRunner::State::QueueFull() {
  refused_full.Increment();
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("the model's queue is full: ", queue.size(), " requests wait"),
      {.reason = "QUEUE_FULL",
       .field_violations = {},
       .retry_after =
           batching::RetryAfter(queue.waiting_rows(), queue.policy().max_batch, batch_time)});
}

void BatchRunner::State::UpdateDepth() {
  queue_depth.Increment(static_cast<double>(queue.size()) - static_cast<double>(shown_depth));
  shown_depth = queue.size();
}

BatchRunner::BatchRunner(lifecycle::ModelHandle model, batching::BatchPolicy policy,
                         base::Clock* clock, base::Metrics* metrics)
    : state_(std::make_unique<State>(std::move(model), policy, clock, metrics)) {}

BatchRunner::~BatchRunner() = default;

absl::Status BatchRunner::Submit(BatchEntry entry) {
  State& state = *state_;
  const engine::Model& network = *state.model->model;
  DEFORM_RETURN_IF_ERROR(engine::CheckInputs(network.inputs(), network.max_batch(), entry.inputs));

  State::Queue::Entry queued;
  queued.rows = static_cast<int>(entry.inputs.front().shape().front());
  queued.deadline = entry.deadline;
  queued.cancellation = std::move(entry.cancellation);
  queued.payload = {std::move(entry.inputs), std::move(entry.done)};

  using PushResult = State::Queue::PushResult;
  std::vector<State::Queue::Dropped> dropped;
  PushResult result;
  absl::Status status;
  {
    std::lock_guard lock(state.mutex);
    const base::TimePoint now = state.clock->Now();
    // While a batch runs nobody else sweeps: those that nobody waits for keep no place.
    if (state.queue.full()) dropped = state.queue.Sweep(now);
    result = state.queue.Push(std::move(queued), now);
    if (result == PushResult::kFull) status = state.QueueFull();
    state.UpdateDepth();
  }
  if (result == PushResult::kQueued) state.changed.notify_one();
  state.AnswerDropped(std::move(dropped));
  if (result == PushResult::kExpired || result == PushResult::kCancelled) {
    const auto reason = result == PushResult::kExpired ? batching::DropReason::kExpired
                                                       : batching::DropReason::kCancelled;
    state.DroppedTotal(reason).Increment();
    return DropStatus(reason);
  }
  return status;
}

absl::Status BatchRunner::CheckRoom() {
  std::vector<State::Queue::Dropped> dropped;
  absl::Status status;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->queue.full()) dropped = state_->queue.Sweep(state_->clock->Now());
    if (state_->queue.full()) status = state_->QueueFull();
    state_->UpdateDepth();
  }
  state_->AnswerDropped(std::move(dropped));
  return status;
}

}  // namespace deform::serving
