#pragma once

#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace deform::engine {

// Calls of the op library, in networks that ran, that didn't get the first choice of backend, read
// afresh at each Collect: deform_backend_fallbacks_total{op,from,to,reason}. None without an op
// library, or with one that doesn't count. Thread-safe.
class BackendFallbacks final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override;
};

}  // namespace deform::engine
