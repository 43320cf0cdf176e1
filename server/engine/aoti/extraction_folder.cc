#include "engine/aoti/extraction_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/logging.h"

namespace deform::engine {

absl::StatusOr<ExtractionFolder> ExtractionFolder::Make() {
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  std::string path = (temporary / "deform-network-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr)
    return absl::InternalError("no folder can be made in the temporary directory");
  return ExtractionFolder(std::move(path));
}

ExtractionFolder::ExtractionFolder(std::string path) : path_(std::move(path)) {}

ExtractionFolder::ExtractionFolder(ExtractionFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")) {}

ExtractionFolder::~ExtractionFolder() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) {
    base::Log(base::LogLevel::kWarning, "extraction_folder_left_behind",
              {{"folder", path_}, {"error", error.message()}});
  }
}

}  // namespace deform::engine
