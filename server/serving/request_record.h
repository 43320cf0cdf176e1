#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "lifecycle/servable_model.h"
#include "serving/call.h"

namespace deform::serving {

// A stage by the name that metrics and logs use, and where its time is kept.
struct Stage {
  const char* name;
  base::Duration StageTimes::*time;
};
inline constexpr Stage kDecode{"decode", &StageTimes::decode};
inline constexpr Stage kPreprocess{"preprocess", &StageTimes::preprocess};
inline constexpr Stage kQueue{"queue", &StageTimes::queue};
inline constexpr Stage kCompute{"compute", &StageTimes::compute};
inline constexpr Stage kPostprocess{"postprocess", &StageTimes::postprocess};

// What one request leaves behind: its metrics, and its line in the log. Until a model is named its
// label is "_unknown", so that what clients send makes no series. Used by one thread at a time.
class RequestRecord {
 public:
  // The request begins now. `clock` and `metrics` outlive the record.
  RequestRecord(const CallContext& context, std::string requested_model, base::Clock* clock,
                base::Metrics* metrics);

  // The name exists, though no version of it can be had. REQUIRES: before EnterModel.
  void NameModel(const std::string& name) { model_label_ = name; }
  // The version that answers; the request is in flight until Finish. At most once.
  void EnterModel(const lifecycle::ServableModel& model);

  void AddStage(const Stage& stage, base::Duration duration);
  void SetBatchSize(int rows) { times_.batch_size = rows; }
  // work(), timed as `stage`.
  template <typename Work>
  auto Timed(const Stage& stage, Work&& work) {
    const base::TimePoint begin = clock_->Now();
    auto result = std::forward<Work>(work)();
    AddStage(stage, clock_->Now() - begin);
    return result;
  }

  void CountPixels(int64_t pixels);
  void CountImages(int64_t images);
  void CountRefused(const std::string& reason);
  void CountDropped(const std::string& reason);

  // Records the answer. Exactly once, before it is given.
  void Finish(const absl::Status& status);

  base::TimePoint begin() const { return begin_; }
  const StageTimes& times() const { return times_; }

 private:
  const std::string request_id_;
  const std::string method_;
  const std::string requested_model_;
  base::Clock* const clock_;
  base::Metrics* const metrics_;
  const base::TimePoint begin_;
  std::string model_label_ = "_unknown";
  std::string version_label_ = "_unknown";
  bool in_flight_ = false;
  StageTimes times_;
};

}  // namespace deform::serving
