#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace deform::lifecycle {

// The newest version of each model under `repository`: the highest of the numeric folder names in
// NAME/, with no leading zero. Folders that aren't versions, models without any, and names that no
// model can have are left out with a log line. FAILED_PRECONDITION when the repository can't be
// read or holds no model; the message holds no path.
absl::StatusOr<std::map<std::string, int64_t>> FindNewestVersions(const std::string& repository);

// The version that a folder's name stands for, or 0.
int64_t ParseVersion(const std::string& folder_name);

}  // namespace deform::lifecycle
