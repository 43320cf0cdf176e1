#include "app/check_packages.h"

#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "base/metrics.h"
#include "engine/model_loader.h"
#include "lifecycle/load_version.h"
#include "lifecycle/repository_scan.h"

namespace deform::app {
namespace {

// Stands where a load would go on from a verified package to its artifact, and stops there.
class StopAtArtifact final : public engine::ModelLoader {
 public:
  absl::StatusOr<std::unique_ptr<engine::Model>> Load(const engine::PackageManifest&,
                                                      const std::string&,
                                                      const std::string&) override {
    reached_ = true;
    return absl::CancelledError("only checked");
  }
  bool reached() const { return reached_; }

 private:
  bool reached_ = false;
};

}  // namespace

bool CheckPackages(const std::string& repository, std::ostream& out) {
  const auto versions = lifecycle::FindNewestVersions(repository);
  if (!versions.ok()) {
    out << "model_repository: " << versions.status().message() << "\n";
    return false;
  }
  bool sound = true;
  base::Metrics metrics;
  for (const auto& [name, version] : *versions) {
    StopAtArtifact loader;
    const std::string path = absl::StrCat(repository, "/", name, "/", version);
    const auto loaded = lifecycle::LoadVersion({name, version, path}, "cpu", loader, metrics);
    out << name << "/" << version << ": ";
    if (loader.reached()) {
      out << "ok\n";
    } else {
      out << loaded.status().message() << "\n";
      sound = false;
    }
  }
  return sound;
}

}  // namespace deform::app
