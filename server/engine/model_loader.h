#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model.h"
#include "engine/package_manifest.h"
#include "prometheus/collectable.h"

namespace deform::engine {

// Turns a verified package folder into a network on a device. The seam between lifecycle/ and
// engine/aoti (and a fake in tests). Thread-safe.
class ModelLoader {
 public:
  virtual ~ModelLoader() = default;

  // device: "cpu" or "cuda:N". REQUIRES: VerifyPackageFiles passed. FAILED_PRECONDITION, reason
  // NO_BACKEND, lists each artifact of the package and why it was passed over; a failed load
  // leaves nothing behind, in memory or on disk.
  virtual absl::StatusOr<std::unique_ptr<Model>> Load(const PackageManifest& manifest,
                                                      const std::string& folder,
                                                      const std::string& device) = 0;

  // What loaded models count beside the server, for /metrics; null: nothing. Lives as long as this.
  virtual const prometheus::Collectable* metrics() const { return nullptr; }
};

}  // namespace deform::engine
