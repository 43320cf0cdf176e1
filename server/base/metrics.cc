#include "base/metrics.h"

#include <vector>

#include "base/process_metrics.h"
#include "prometheus/text_serializer.h"

namespace deform::base {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// From the shortest stage worth telling from nothing to about a minute, near-even on a log scale.
const Buckets& DurationBuckets() {
  static const Buckets* const buckets = new Buckets{
      0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60};
  return *buckets;
}

// Reading and warming a large package takes minutes.
const Buckets& LoadDurationBuckets() {
  static const Buckets* const buckets =
      new Buckets{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 60, 120, 300, 600};
  return *buckets;
}

const Buckets& BatchSizeBuckets() {
  static const Buckets* const buckets = new Buckets{1, 2, 4, 8, 16, 32, 64};
  return *buckets;
}

prometheus::Family<prometheus::Counter>& Counter(prometheus::Registry& registry, const char* name,
                                                 const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& Gauge(prometheus::Registry& registry, const char* name,
                                             const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& Histogram(prometheus::Registry& registry,
                                                     const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      requests_total_(Counter(*registry_, "deform_requests_total", "Requests answered")),
      request_duration_seconds_(Histogram(*registry_, "deform_request_duration_seconds",
                                          "Time from a request's arrival to its answer")),
      stage_duration_seconds_(Histogram(*registry_, "deform_stage_duration_seconds",
                                        "Time that a request spent in one stage")),
      queue_wait_seconds_(Histogram(*registry_, "deform_queue_wait_seconds",
                                    "Time that a request waited for its batch")),
      queue_depth_(Gauge(*registry_, "deform_queue_depth", "Requests that wait for a batch")),
      queue_capacity_(Gauge(*registry_, "deform_queue_capacity",
                            "Requests that may wait before one more is refused")),
      requests_in_flight_(
          Gauge(*registry_, "deform_requests_in_flight", "Requests taken and not yet answered")),
      batch_size_(Histogram(*registry_, "deform_batch_size", "Rows of each batch that ran")),
      images_total_(Counter(*registry_, "deform_images_total", "Pictures answered")),
      pixels_total_(Counter(*registry_, "deform_pixels_total", "Pixels of the pictures decoded")),
      refused_total_(Counter(*registry_, "deform_refused_total", "Requests refused unqueued")),
      dropped_total_(Counter(*registry_, "deform_dropped_total",
                             "Requests dropped before their work ran, as nobody waited")),
      device_busy_seconds_total_(Counter(*registry_, "deform_device_busy_seconds_total",
                                         "Time that a device spent running a model")),
      model_ready_(Gauge(*registry_, "deform_model_ready", "1 while the version serves, else 0")),
      model_loads_total_(Counter(*registry_, "deform_model_loads_total", "Loads of a model")),
      model_load_duration_seconds_(Histogram(*registry_, "deform_model_load_duration_seconds",
                                             "Time that a load spent in one phase")),
      draining_(Gauge(*registry_, "deform_draining", "1 while the server drains, else 0")),
      build_info_(Gauge(*registry_, "deform_build_info", "1, labelled with what was built")) {}

std::string Metrics::Expose() const {
  std::vector<prometheus::MetricFamily> families = registry_->Collect();
  for (prometheus::MetricFamily& family : ProcessMetrics().Collect())
    families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

prometheus::Counter& Metrics::RequestsTotal(const std::string& model, const std::string& version,
                                            const std::string& method, const std::string& code) {
  return requests_total_.Add(
      {{"model", model}, {"version", version}, {"method", method}, {"code", code}});
}

prometheus::Histogram& Metrics::RequestDurationSeconds(const std::string& model,
                                                       const std::string& method) {
  return request_duration_seconds_.Add({{"model", model}, {"method", method}}, DurationBuckets());
}

prometheus::Histogram& Metrics::StageDurationSeconds(const std::string& model,
                                                     const std::string& stage) {
  return stage_duration_seconds_.Add({{"model", model}, {"stage", stage}}, DurationBuckets());
}

prometheus::Histogram& Metrics::QueueWaitSeconds(const std::string& model) {
  return queue_wait_seconds_.Add({{"model", model}}, DurationBuckets());
}

prometheus::Gauge& Metrics::QueueDepth(const std::string& model) {
  return queue_depth_.Add({{"model", model}});
}

prometheus::Gauge& Metrics::QueueCapacity(const std::string& model) {
  return queue_capacity_.Add({{"model", model}});
}

prometheus::Gauge& Metrics::RequestsInFlight(const std::string& model) {
  return requests_in_flight_.Add({{"model", model}});
}

prometheus::Histogram& Metrics::BatchSize(const std::string& model, const std::string& device) {
  return batch_size_.Add({{"model", model}, {"device", device}}, BatchSizeBuckets());
}

prometheus::Counter& Metrics::ImagesTotal(const std::string& model) {
  return images_total_.Add({{"model", model}});
}

prometheus::Counter& Metrics::PixelsTotal(const std::string& model) {
  return pixels_total_.Add({{"model", model}});
}

prometheus::Counter& Metrics::RefusedTotal(const std::string& model, const std::string& reason) {
  return refused_total_.Add({{"model", model}, {"reason", reason}});
}

prometheus::Counter& Metrics::DroppedTotal(const std::string& model, const std::string& reason) {
  return dropped_total_.Add({{"model", model}, {"reason", reason}});
}

prometheus::Counter& Metrics::DeviceBusySecondsTotal(const std::string& device,
                                                     const std::string& model) {
  return device_busy_seconds_total_.Add({{"device", device}, {"model", model}});
}

prometheus::Gauge& Metrics::ModelReady(const std::string& model, const std::string& version) {
  return model_ready_.Add({{"model", model}, {"version", version}});
}

prometheus::Counter& Metrics::ModelLoadsTotal(const std::string& model, const std::string& result) {
  return model_loads_total_.Add({{"model", model}, {"result", result}});
}

prometheus::Histogram& Metrics::ModelLoadDurationSeconds(const std::string& model,
                                                         const std::string& phase) {
  return model_load_duration_seconds_.Add({{"model", model}, {"phase", phase}},
                                          LoadDurationBuckets());
}

prometheus::Gauge& Metrics::Draining() { return draining_.Add({}); }

prometheus::Gauge& Metrics::BuildInfo(const std::string& version, const std::string& revision,
                                      const std::string& torch, const std::string& cuda) {
  return build_info_.Add(
      {{"version", version}, {"revision", revision}, {"torch", torch}, {"cuda", cuda}});
}

}  // namespace deform::base
