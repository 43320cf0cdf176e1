#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "engine/model_loader.h"
#include "lifecycle/servable_model.h"

namespace deform::lifecycle {

struct VersionFolder {
  std::string name;
  int64_t version = 0;
  std::string path;
};

// From a version's folder to a warm model: package.json, checksums, artifact, warm-up; the time of
// each phase goes into deform_model_load_duration_seconds. The Status of the step that failed,
// FAILED_PRECONDITION for package.json missing or naming another model; no message holds a path.
absl::StatusOr<ModelHandle> LoadVersion(const VersionFolder& folder, const std::string& device,
                                        engine::ModelLoader& loader, base::Metrics& metrics);

}  // namespace deform::lifecycle
