#include "lifecycle/load_version.h"

#include <chrono>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "engine/package_manifest.h"
#include "lifecycle/warm_up.h"

namespace deform::lifecycle {
namespace {

constexpr size_t kLargestManifestBytes = 16 << 20;

// Observes, when it dies, how long it lived.
class PhaseTimer {
 public:
  PhaseTimer(base::Metrics& metrics, const std::string& model, const std::string& phase)
      : histogram_(metrics.ModelLoadDurationSeconds(model, phase)),
        began_(std::chrono::steady_clock::now()) {}
  ~PhaseTimer() {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began_;
    histogram_.Observe(seconds.count());
  }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  prometheus::Histogram& histogram_;
  const std::chrono::steady_clock::time_point began_;
};

absl::Status InvalidPackage(std::string_view message) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition, message,
      {.reason = "PACKAGE_INVALID", .field_violations = {}, .retry_after = std::nullopt});
}

absl::StatusOr<std::string> ReadManifest(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return InvalidPackage("package.json is missing or can't be read");
  std::string text(kLargestManifestBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLargestManifestBytes)
    return InvalidPackage(
        absl::StrCat("package.json has more than ", kLargestManifestBytes, " bytes"));
  return text;
}

absl::StatusOr<engine::PackageManifest> Verify(const VersionFolder& folder) {
  DEFORM_ASSIGN_OR_RETURN(const std::string text, ReadManifest(folder.path + "/package.json"));
  DEFORM_ASSIGN_OR_RETURN(engine::PackageManifest manifest, engine::ParsePackageManifest(text));
  if (manifest.name != folder.name)
    return InvalidPackage(absl::StrCat("package.json: name: is \"", manifest.name,
                                       "\", but the folder is that of \"", folder.name, "\""));
  DEFORM_RETURN_IF_ERROR(engine::VerifyPackageFiles(manifest, folder.path));
  return manifest;
}

}  // namespace

absl::StatusOr<ModelHandle> LoadVersion(const VersionFolder& folder, const std::string& device,
                                        engine::ModelLoader& loader, base::Metrics& metrics) {
  auto servable = std::make_shared<ServableModel>();
  servable->name = folder.name;
  servable->version = folder.version;
  {
    PhaseTimer timer(metrics, folder.name, "verify");
    DEFORM_ASSIGN_OR_RETURN(servable->manifest, Verify(folder));
  }
  {
    PhaseTimer timer(metrics, folder.name, "load");
    DEFORM_ASSIGN_OR_RETURN(servable->model, loader.Load(servable->manifest, folder.path, device));
  }
  {
    PhaseTimer timer(metrics, folder.name, "warm");
    DEFORM_RETURN_IF_ERROR(WarmUp(*servable->model));
  }
  return ModelHandle(std::move(servable));
}

}  // namespace deform::lifecycle
