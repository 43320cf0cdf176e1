#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "base/cancellation.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/worker_pool.h"
#include "lifecycle/model_manager.h"
#include "pipeline/picture.h"
#include "pipeline/postprocess.h"
#include "serving/batch_runner.h"

namespace deform::serving {

struct EncodedPicture {
  std::string bytes;
};
struct RawPicture {
  std::string rows;
  int64_t width = 0, height = 0, row_stride_bytes = 0;
};

// Unset: the package's default.
struct RequestedOptions {
  std::optional<float> score_threshold;
  std::optional<float> mask_threshold;
  std::optional<float> overlap_mask_area_threshold;
  std::optional<int> max_results;
  std::vector<std::string> label_names;  // class filter; empty: all
  std::optional<engine::Compat> compat;
};

// What one call brings, whatever its kind.
struct CallContext {
  std::string request_id;
  std::string method;  // "Segment", "ModelInfer": a label of the metrics
  base::TimePoint deadline = base::TimePoint::max();
  base::CancellationPtr cancellation;
};

struct SegmentRequest {
  CallContext context;
  std::string model;
  int64_t version = 0;  // 0: the newest that serves
  std::optional<engine::Task> task;  // nullopt: the package's first
  std::variant<EncodedPicture, RawPicture> picture;
  RequestedOptions options;
};

struct StageTimes {
  base::Duration decode{}, preprocess{}, queue{}, compute{}, postprocess{};
  int batch_size = 0;  // that the picture ran in
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
// runs elsewhere), postprocess; read Segment top to bottom. Records the request's metrics.
// Thread-safe.
class Predictor {
 public:
  struct Options {
    pipeline::DecodeLimits decode_limits;
    batching::BatchPolicy batch_policy;  // max_batch is lowered to each package's
    int worker_threads = 2;              // decode, preprocess and postprocess
    base::Duration default_deadline = std::chrono::seconds(30);
    base::Duration longest_deadline = std::chrono::seconds(120);
  };

  // `models`, `clock` and `metrics` outlive the predictor.
  Predictor(Options options, lifecycle::ModelManager* models, base::Clock* clock,
            base::Metrics* metrics);
  // Finishes what was accepted.
  ~Predictor();

  // `done` is called exactly once, from a worker thread (never from within this call).
  // Errors: those of ModelManager::Acquire, DecodePicture, BatchRunner::Submit; INVALID_ARGUMENT
  // naming `task` or `options.…` (not finite, out of range, not used by the task, unknown label);
  // DEADLINE_EXCEEDED; CANCELLED.
  void Segment(SegmentRequest request, std::function<void(absl::StatusOr<SegmentAnswer>)> done);
  void Infer(InferRequest request, std::function<void(absl::StatusOr<InferAnswer>)> done);

  // New requests are refused with UNAVAILABLE (reason DRAINING); accepted ones finish.
  void StartDraining();
  // Waits until nothing is in flight, or `until`. True when nothing is.
  bool WaitIdle(base::TimePoint until);

  lifecycle::ModelManager& models() { return *models_; }

 private:
  struct State;
  const Options options_;
  lifecycle::ModelManager* const models_;
  base::Clock* const clock_;
  base::Metrics* const metrics_;
  std::unique_ptr<State> state_;
};

}  // namespace deform::serving
