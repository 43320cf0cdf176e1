#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deform::client {

// The pictures meant by FILES, in the order given, each once. A folder is searched with its
// subfolders, in order of path, for files whose names end like pictures' (.jpg, .jpeg, .png, .webp,
// .gif, .tif, .tiff, .bmp); hidden files and the client's own results are passed over. Anything
// that isn't a folder is taken as it is, there or not. NOT_FOUND when a folder holds no picture;
// an error when one can't be read.
absl::StatusOr<std::vector<std::filesystem::path>> FindPictures(
    const std::vector<std::filesystem::path>& files);

// A file's bytes. NOT_FOUND, PERMISSION_DENIED or another error with the system's words.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path);

// Writes a file, replacing what was there only once all is written.
absl::Status WriteFile(const std::filesystem::path& path, std::string_view bytes);

}  // namespace deform::client
