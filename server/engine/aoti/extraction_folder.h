#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace deform::engine {

// A new folder, readable by this user alone, in the temporary directory (TMPDIR, else /tmp). It
// goes, with all in it, when this dies.
class ExtractionFolder {
 public:
  // INTERNAL when the folder can't be made.
  static absl::StatusOr<ExtractionFolder> Make();

  ~ExtractionFolder();
  ExtractionFolder(ExtractionFolder&& other) noexcept;
  ExtractionFolder& operator=(ExtractionFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit ExtractionFolder(std::string path);

  std::string path_;  // empty: moved from
};

}  // namespace deform::engine
