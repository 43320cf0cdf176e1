#include "lifecycle/repository_scan.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/logging.h"

namespace deform::lifecycle {
namespace {

namespace fs = std::filesystem;

absl::Status BadRepository(std::string_view message) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition, message,
      {.reason = "BAD_REPOSITORY", .field_violations = {}, .retry_after = std::nullopt});
}

int64_t NewestVersion(const fs::path& model_folder) {
  int64_t newest = 0;
  std::error_code error;
  for (fs::directory_iterator entry(model_folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code type_error;
    if (entry->is_directory(type_error))
      newest = std::max(newest, ParseVersion(entry->path().filename().string()));
  }
  return newest;
}

}  // namespace

int64_t ParseVersion(const std::string& folder_name) {
  int64_t version = 0;
  const char* const end = folder_name.data() + folder_name.size();
  const auto [parsed, error] = std::from_chars(folder_name.data(), end, version);
  // "007" is refused, as it would be a second name of version 7.
  if (error != std::errc() || parsed != end || version < 1 || folder_name[0] == '0') return 0;
  return version;
}

absl::StatusOr<std::map<std::string, int64_t>> FindNewestVersions(const std::string& repository) {
  std::map<std::string, int64_t> newest;
  std::error_code error;
  for (fs::directory_iterator entry(repository, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code type_error;
    const std::string name = entry->path().filename().string();
    // Kubernetes keeps folders of its own, "..data", beside what it mounts.
    if (!entry->is_directory(type_error) || name[0] == '.') continue;
    if (const int64_t version = NewestVersion(entry->path()); version > 0) {
      newest[name] = version;
    } else {
      base::Log(base::LogLevel::kWarning, "folder_without_version_ignored", {{"folder", name}});
    }
  }
  if (error) return BadRepository("the model repository can't be read");
  if (newest.empty()) return BadRepository("the model repository holds no model");
  return newest;
}

}  // namespace deform::lifecycle
