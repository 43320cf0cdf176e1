#pragma once

#include <string>

#include "base/cancellation.h"
#include "base/clock.h"

namespace deform::serving {

// What one call brings, whatever its kind.
struct CallContext {
  std::string request_id;
  std::string method;  // "Segment", "ModelInfer": a label of the metrics
  base::TimePoint deadline = base::TimePoint::max();  // max(): none, the default applies
  base::CancellationPtr cancellation;                 // may be null
};

struct StageTimes {
  base::Duration decode{}, preprocess{}, queue{}, compute{}, postprocess{};
  int batch_size = 0;  // rows that ran together
};

}  // namespace deform::serving
