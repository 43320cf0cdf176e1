#pragma once

#include <memory>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace deform::base {

// Every metric family of the server, by the names users see on /metrics. One instance for a
// server, handed to whoever records. Label values are bounded: callers pass names of models that
// exist, or "_unknown". Thread-safe.
class Metrics {
 public:
  Metrics();

  prometheus::Registry& registry() { return *registry_; }

  // Everything as of now, the process_* metrics included, in the text format of Prometheus
  // ("text/plain; version=0.0.4; charset=utf-8").
  std::string Expose() const;

  prometheus::Counter& RequestsTotal(const std::string& model, const std::string& version,
                                     const std::string& method, const std::string& code);
  prometheus::Histogram& RequestDurationSeconds(const std::string& model,
                                                const std::string& method);
  // stage: decode, preprocess, queue, compute, postprocess, encode.
  prometheus::Histogram& StageDurationSeconds(const std::string& model, const std::string& stage);
  prometheus::Histogram& QueueWaitSeconds(const std::string& model);
  prometheus::Gauge& QueueDepth(const std::string& model);
  prometheus::Gauge& QueueCapacity(const std::string& model);
  prometheus::Gauge& RequestsInFlight(const std::string& model);
  prometheus::Histogram& BatchSize(const std::string& model, const std::string& device);
  prometheus::Counter& ImagesTotal(const std::string& model);
  prometheus::Counter& PixelsTotal(const std::string& model);
  prometheus::Counter& RefusedTotal(const std::string& model, const std::string& reason);
  // reason: cancelled, expired.
  prometheus::Counter& DroppedTotal(const std::string& model, const std::string& reason);
  prometheus::Counter& DeviceBusySecondsTotal(const std::string& device, const std::string& model);
  prometheus::Gauge& ModelReady(const std::string& model, const std::string& version);
  // result: ok, failed.
  prometheus::Counter& ModelLoadsTotal(const std::string& model, const std::string& result);
  // phase: verify, load, warm.
  prometheus::Histogram& ModelLoadDurationSeconds(const std::string& model,
                                                  const std::string& phase);
  prometheus::Gauge& Draining();
  prometheus::Gauge& BuildInfo(const std::string& version, const std::string& revision,
                               const std::string& torch, const std::string& cuda);

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  prometheus::Family<prometheus::Counter>& requests_total_;
  prometheus::Family<prometheus::Histogram>& request_duration_seconds_;
  prometheus::Family<prometheus::Histogram>& stage_duration_seconds_;
  prometheus::Family<prometheus::Histogram>& queue_wait_seconds_;
  prometheus::Family<prometheus::Gauge>& queue_depth_;
  prometheus::Family<prometheus::Gauge>& queue_capacity_;
  prometheus::Family<prometheus::Gauge>& requests_in_flight_;
  prometheus::Family<prometheus::Histogram>& batch_size_;
  prometheus::Family<prometheus::Counter>& images_total_;
  prometheus::Family<prometheus::Counter>& pixels_total_;
  prometheus::Family<prometheus::Counter>& refused_total_;
  prometheus::Family<prometheus::Counter>& dropped_total_;
  prometheus::Family<prometheus::Counter>& device_busy_seconds_total_;
  prometheus::Family<prometheus::Gauge>& model_ready_;
  prometheus::Family<prometheus::Counter>& model_loads_total_;
  prometheus::Family<prometheus::Histogram>& model_load_duration_seconds_;
  prometheus::Family<prometheus::Gauge>& draining_;
  prometheus::Family<prometheus::Gauge>& build_info_;
};

}  // namespace deform::base
