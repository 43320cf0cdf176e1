#include "base/metrics.h"

#include "base/process_metrics.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::base {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTest, WhatIsRecordedIsExposedWithItsLabels) {
  Metrics metrics;
  metrics.RequestsTotal("shapes", "1", "Segment", "OK").Increment();
  metrics.RequestsTotal("shapes", "1", "Segment", "OK").Increment();
  metrics.QueueDepth("shapes").Set(3);
  metrics.Draining().Set(1);
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("# TYPE deform_requests_total counter"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"(deform_requests_total{code="OK",method="Segment",model="shapes",version="1"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(deform_queue_depth{model="shapes"} 3)"));
  EXPECT_THAT(text, HasSubstr("deform_draining 1"));
}

TEST(MetricsTest, BatchSizesHaveABucketForEachPowerOfTwo) {
  Metrics metrics;
  for (const int size : {1, 2, 3, 8}) metrics.BatchSize("shapes", "cpu").Observe(size);
  const std::string text = metrics.Expose();
  const auto bucket = [](const char* bound, int count) {
    return HasSubstr(std::string(R"(deform_batch_size_bucket{device="cpu",model="shapes",le=")") +
                     bound + "\"} " + std::to_string(count));
  };
  EXPECT_THAT(text, bucket("1", 1));
  EXPECT_THAT(text, bucket("2", 2));
  EXPECT_THAT(text, bucket("4", 3));
  EXPECT_THAT(text, bucket("8", 4));
  EXPECT_THAT(text, bucket("64", 4));
}

TEST(MetricsTest, DurationBucketsReachFromAMillisecondToAMinute) {
  Metrics metrics;
  metrics.RequestDurationSeconds("shapes", "Segment").Observe(0.0015);
  const std::string text = metrics.Expose();
  const std::string start =
      R"(deform_request_duration_seconds_bucket{method="Segment",model="shapes",le=")";
  EXPECT_THAT(text, HasSubstr(start + "0.001\"} 0"));
  EXPECT_THAT(text, HasSubstr(start + "0.002\"} 1"));
  EXPECT_THAT(text, HasSubstr(start + "60\"} 1"));
}

TEST(MetricsTest, TwoInstancesShareNothing) {
  Metrics first, second;
  first.ImagesTotal("shapes").Increment();
  EXPECT_EQ(second.ImagesTotal("shapes").Value(), 0);
}

TEST(ProcessMetricsTest, TellsOfThisProcess) {
  std::map<std::string, double> values;
  for (const prometheus::MetricFamily& family : ProcessMetrics().Collect()) {
    const prometheus::ClientMetric& metric = family.metric.at(0);
    values[family.name] =
        family.type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value;
  }
  EXPECT_GT(values.at("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(values.at("process_open_fds"), 3);
  EXPECT_GT(values.at("process_cpu_seconds_total"), 0);
  EXPECT_GT(values.at("process_start_time_seconds"), 1.6e9);
  EXPECT_THAT(Metrics().Expose(), HasSubstr("# TYPE process_cpu_seconds_total counter"));
}

TEST(ProcessMetricsTest, AnOpenFileIsCounted) {
  const auto open_fds = [] {
    for (const auto& family : ProcessMetrics().Collect()) {
      if (family.name == "process_open_fds") return family.metric.at(0).gauge.value;
    }
    return -1.0;
  };
  const double before = open_fds();
  std::FILE* const file = std::fopen("/dev/null", "r");
  EXPECT_EQ(open_fds(), before + 1);
  std::fclose(file);
}

}  // namespace
}  // namespace deform::base
