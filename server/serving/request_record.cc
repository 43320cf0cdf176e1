#include "serving/request_record.h"

#include <cstdint>

#include "base/error.h"
#include "base/logging.h"

namespace deform::serving {
namespace {

double Seconds(base::Duration duration) { return std::chrono::duration<double>(duration).count(); }
double Milliseconds(base::Duration duration) { return 1e3 * Seconds(duration); }

}  // namespace

RequestRecord::RequestRecord(const CallContext& context, std::string requested_model,
                             base::Clock* clock, base::Metrics* metrics)
    : request_id_(context.request_id),
      method_(context.method),
      requested_model_(std::move(requested_model)),
      clock_(clock),
      metrics_(metrics),
      begin_(clock->Now()) {}

void RequestRecord::EnterModel(const lifecycle::ServableModel& model) {
  model_label_ = model.name;
  version_label_ = std::to_string(model.version);
  in_flight_ = true;
  metrics_->RequestsInFlight(model_label_).Increment();
}

void RequestRecord::AddStage(const Stage& stage, base::Duration duration) {
  times_.*stage.time += duration;
  metrics_->StageDurationSeconds(model_label_, stage.name).Observe(Seconds(duration));
}

void RequestRecord::CountPixels(int64_t pixels) {
  metrics_->PixelsTotal(model_label_).Increment(static_cast<double>(pixels));
}

void RequestRecord::CountImages(int64_t images) {
  metrics_->ImagesTotal(model_label_).Increment(static_cast<double>(images));
}

void RequestRecord::CountRefused(const std::string& reason) {
  metrics_->RefusedTotal(model_label_, reason).Increment();
}

void RequestRecord::CountDropped(const std::string& reason) {
  metrics_->DroppedTotal(model_label_, reason).Increment();
}

void RequestRecord::Finish(const absl::Status& status) {
  const base::Duration total = clock_->Now() - begin_;
  const std::string code = absl::StatusCodeToString(status.code());
  if (in_flight_) metrics_->RequestsInFlight(model_label_).Decrement();
  metrics_->RequestsTotal(model_label_, version_label_, method_, code).Increment();
  metrics_->RequestDurationSeconds(model_label_, method_).Observe(Seconds(total));

  const auto details = base::GetErrorDetails(status);
  // The server's own faults stand out; a client's are its business.
  const bool own_fault =
      status.code() == absl::StatusCode::kInternal || status.code() == absl::StatusCode::kUnknown;
  base::Log(own_fault ? base::LogLevel::kError : base::LogLevel::kInfo, "request",
            {{"request_id", request_id_},
             {"method", method_},
             {"model", requested_model_.substr(0, 128)},
             {"version", version_label_},
             {"code", code},
             {"reason", details ? details->reason : std::string()},
             {"message", std::string(status.message())},
             {"total_ms", Milliseconds(total)},
             {"decode_ms", Milliseconds(times_.decode)},
             {"preprocess_ms", Milliseconds(times_.preprocess)},
             {"queue_ms", Milliseconds(times_.queue)},
             {"compute_ms", Milliseconds(times_.compute)},
             {"postprocess_ms", Milliseconds(times_.postprocess)},
             {"batch_size", int64_t{times_.batch_size}}});
}

}  // namespace deform::serving
