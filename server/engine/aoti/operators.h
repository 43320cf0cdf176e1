#pragma once

#include <string>

#include "absl/status/status.h"

namespace deform::engine {

// Opens the op library at `path` for the whole process and for good; opening it twice is opening
// it once. FAILED_PRECONDITION when it can't be opened.
absl::Status OpenOperatorLibrary(const std::string& path);

// Why the operator "NAMESPACE::NAME" can't be called on `device` ("cpu" or "cuda"); empty when it
// can. Reads on from the name of the file that calls it.
std::string WhyNotCallable(const std::string& op, const std::string& device);

}  // namespace deform::engine
