#pragma once

#include <optional>
#include <string_view>

#include "base/cancellation.h"
#include "base/clock.h"

namespace deform::batching {

// Why nobody waits for a request any more.
enum class DropReason { kCancelled, kExpired };

// Why work that has not begun is not to begin, or nullopt while somebody waits for it. A request
// expires at its deadline, not after it; `cancellation` may be null.
std::optional<DropReason> WhyDrop(base::TimePoint deadline,
                                  const base::CancellationPtr& cancellation, base::TimePoint now);

// "cancelled", "expired": the label of deform_dropped_total.
std::string_view DropReasonName(DropReason reason);

}  // namespace deform::batching
