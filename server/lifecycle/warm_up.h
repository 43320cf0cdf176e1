#pragma once

#include "absl/status/status.h"
#include "engine/model.h"

namespace deform::lifecycle {

// Runs `model` on constant inputs (floating-point ones 0, others 1) at batch 1 and at max_batch(),
// so that what is made at the first run is made before a request waits for it, and a network that
// can't run is found out. The Status of the run that failed.
absl::Status WarmUp(engine::Model& model);

}  // namespace deform::lifecycle
