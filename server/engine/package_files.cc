#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "engine/package_manifest.h"
#include "engine/sha256.h"

namespace deform::engine {
namespace {

absl::Status Damaged(const std::string& file, std::string_view what) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("package file \"", file, "\" ", absl::string_view(what.data(), what.size())),
      {.reason = "PACKAGE_DAMAGED", .field_violations = {}, .retry_after = std::nullopt});
}

}  // namespace

absl::Status VerifyPackageFiles(const PackageManifest& manifest, const std::string& folder) {
  namespace fs = std::filesystem;
  // Sizes first: they cost nothing, and half a file is found without reading gigabytes.
  for (const auto& [name, expected] : manifest.files) {
    std::error_code error;
    const fs::path path = fs::path(folder) / name;
    if (!fs::is_regular_file(path, error)) return Damaged(name, "is missing");
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    if (error) return Damaged(name, "can't be read");
    if (size != expected.bytes) {
      return Damaged(name,
                     absl::StrCat("has ", size, " bytes, the manifest says ", expected.bytes));
    }
  }
  for (const auto& [name, expected] : manifest.files) {
    const auto sha256 = Sha256OfFile(fs::path(folder) / name);
    if (!sha256.ok()) return Damaged(name, "can't be read");
    if (*sha256 != expected.sha256)
      return Damaged(name, "has another SHA-256 sum than the manifest says");
  }
  return absl::OkStatus();
}

}  // namespace deform::engine
