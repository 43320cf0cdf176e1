#pragma once

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace deform::base {

// This process as Linux sees it, read afresh at each Collect: process_cpu_seconds_total,
// process_resident_memory_bytes, process_open_fds, process_start_time_seconds. One that can't be
// read is left out. Thread-safe.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace deform::base
