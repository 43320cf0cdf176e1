#pragma once

#include "absl/status/status.h"
#include "batching/drop_reason.h"

namespace deform::serving {

// What a dropped request is answered: CANCELLED (reason CANCELLED) or DEADLINE_EXCEEDED (reason
// DEADLINE_EXCEEDED).
absl::Status DropStatus(batching::DropReason reason);

}  // namespace deform::serving
