#include "cli/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "results/output_names.h"

namespace deform::client {
namespace {

namespace fs = std::filesystem;

bool LooksLikePicture(const fs::path& path) {
  static const auto* const kExtensions = new std::set<std::string>{
      ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".tif", ".tiff", ".bmp"};
  const std::string name = path.filename().string();
  return !name.empty() && name[0] != '.' && !IsResultFileName(name) &&
         kExtensions->count(absl::AsciiStrToLower(path.extension().string())) > 0;
}

absl::Status FolderError(const fs::path& folder, const std::error_code& error) {
  return absl::ErrnoToStatus(error.value(),
                             absl::StrCat("can't search the folder ", folder.string()));
}

absl::StatusOr<std::vector<fs::path>> SearchFolder(const fs::path& folder) {
  std::vector<fs::path> pictures;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    if (entry->is_directory(ignored)) {
      if (!name.empty() && name[0] == '.') entry.disable_recursion_pending();
    } else if (entry->is_regular_file(ignored) && LooksLikePicture(entry->path())) {
      pictures.push_back(entry->path());
    }
  }
  if (error) return FolderError(folder, error);
  if (pictures.empty()) {
    return absl::NotFoundError(absl::StrCat("no pictures in ", folder.string()));
  }
  std::sort(pictures.begin(), pictures.end());
  return pictures;
}

}  // namespace

absl::StatusOr<std::vector<fs::path>> FindPictures(const std::vector<fs::path>& files) {
  std::vector<fs::path> pictures;
  std::set<fs::path> seen;
  const auto add = [&](const fs::path& path) {
    std::error_code error;
    fs::path canonical = fs::weakly_canonical(path, error);
    if (seen.insert(error ? path : canonical).second) pictures.push_back(path);
  };
  for (const fs::path& file : files) {
    std::error_code error;
    if (!fs::is_directory(file, error)) {
      add(file);
      continue;
    }
    absl::StatusOr<std::vector<fs::path>> found = SearchFolder(file);
    if (!found.ok()) return found.status();
    for (const fs::path& path : *found) add(path);
  }
  return pictures;
}

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  // read() turns errors into flags; stream iterators would throw them.
  std::array<char, 1 << 16> chunk;
  while (file.read(chunk.data(), chunk.size()) || file.gcount() > 0) {
    bytes.append(chunk.data(), file.gcount());
  }
  if (!file.is_open() || file.bad()) {
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno, "the file can't be read");
  }
  return bytes;
}

absl::Status WriteFile(const fs::path& path, std::string_view bytes) {
  fs::path partial = path;
  partial += ".partial";
  errno = 0;
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno,
                               absl::StrCat(path.filename().string(), " can't be written"));
  }
  std::error_code error;
  fs::rename(partial, path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(),
                               absl::StrCat(path.filename().string(), " can't be written"));
  }
  return absl::OkStatus();
}

}  // namespace deform::client
