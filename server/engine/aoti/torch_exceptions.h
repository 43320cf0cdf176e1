#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace deform::engine {

// INTERNAL with `message`, for use inside a catch block. The exception's own text, which may hold
// paths and internal names, goes to the log as `event` alone.
absl::Status StatusOfCurrentException(std::string_view event, std::string_view message);

// Calls `function`, which calls torch and may throw. The one way in which this folder calls torch.
template <typename Function>
absl::Status CatchExceptions(std::string_view event, std::string_view message,
                             Function&& function) {
  try {
    std::forward<Function>(function)();
    return absl::OkStatus();
  } catch (...) {
    return StatusOfCurrentException(event, message);
  }
}

}  // namespace deform::engine
