#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "batching/batch_policy.h"
#include "engine/package_manifest.h"
#include "engine/tensor.h"
#include "lifecycle/model_manager.h"
#include "pipeline/picture.h"
#include "pipeline/postprocess.h"
#include "serving/call.h"
#include "serving/resolve_options.h"

namespace deform::serving {

struct EncodedPicture {
  std::string bytes;
};
struct RawPicture {
  std::string rows;
  int64_t width = 0, height = 0, row_stride_bytes = 0;
};

struct SegmentRequest {
  CallContext context;
  std::string model;
  int64_t version = 0;               // 0: the newest that serves
  std::optional<engine::Task> task;  // nullopt: the package's first
  std::variant<EncodedPicture, RawPicture> picture;
  RequestedOptions options;
};

struct SegmentAnswer {
  lifecycle::ModelHandle model;
  pipeline::PostprocessOptions options;  // in effect
  pipeline::SegmentationResult result;
  StageTimes times;
};

struct InferRequest {
  CallContext context;
  std::string model;
  int64_t version = 0;
  std::vector<std::pair<std::string, engine::Tensor>> inputs;  // by name, in any order
};

struct InferAnswer {
  lifecycle::ModelHandle model;
  std::vector<engine::Tensor> outputs;  // as manifest.outputs
  StageTimes times;
};

// The way of a request from checked operands to an answer: decode, preprocess, submit, (the batch
// runs elsewhere), postprocess; read Segment top to bottom. Records the request's metrics and its
// line in the log. Thread-safe.
class Predictor {
 public:
  struct Options {
    pipeline::DecodeLimits decode_limits{};
    batching::BatchPolicy batch_policy{};  // max_batch is lowered to each network's
    // Threads that decode and preprocess, and as many again that postprocess and answer: what is
    // nearly done doesn't wait behind what has just come.
    int worker_threads = 2;
    size_t decode_capacity = 128;  // pictures that may wait for a worker; one more is refused
    base::Duration default_deadline = std::chrono::seconds(30);
    base::Duration longest_deadline = std::chrono::seconds(120);
  };
  using SegmentDone = std::function<void(absl::StatusOr<SegmentAnswer>)>;
  using InferDone = std::function<void(absl::StatusOr<InferAnswer>)>;

  // `models`, `clock` and `metrics` outlive the predictor.
  Predictor(Options options, lifecycle::ModelManager* models, base::Clock* clock,
            base::Metrics* metrics);
  // Finishes what was accepted.
  ~Predictor();

  // `done` is called exactly once, from a worker thread (never from within this call), after the
  // request's metrics and log line are written.
  // Errors: those of ModelManager::Acquire, DecodePicture, ResolveOptions, OrderInputs,
  // engine::CheckInputs and BatchRunner::Submit; RESOURCE_EXHAUSTED (QUEUE_FULL, with retry_after)
  // when too many pictures wait to be decoded; UNAVAILABLE (DRAINING); DEADLINE_EXCEEDED and
  // CANCELLED, as soon as a stage is about to begin for nobody.
  void Segment(SegmentRequest request, SegmentDone done);
  void Infer(InferRequest request, InferDone done);

  // New requests are refused with UNAVAILABLE (reason DRAINING); accepted ones finish.
  void StartDraining();
  // Waits until nothing is in flight, or `until`. True when nothing is: each accepted request's
  // `done` has returned.
  bool WaitIdle(base::TimePoint until);

  lifecycle::ModelManager& models() { return *models_; }

 private:
  struct State;

  lifecycle::ModelManager* const models_;
  std::unique_ptr<State> state_;
};

}  // namespace deform::serving
