#include "batching/drop_reason.h"

namespace deform::batching {

std::optional<DropReason> WhyDrop(base::TimePoint deadline,
                                  const base::CancellationPtr& cancellation, base::TimePoint now) {
  if (cancellation != nullptr && cancellation->cancelled()) return DropReason::kCancelled;
  if (deadline <= now) return DropReason::kExpired;
  return std::nullopt;
}

std::string_view DropReasonName(DropReason reason) {
  return reason == DropReason::kCancelled ? "cancelled" : "expired";
}

}  // namespace deform::batching
