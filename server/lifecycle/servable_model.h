#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/model.h"
#include "engine/package_manifest.h"

namespace deform::lifecycle {

// One version of one model, loaded and warm. Whoever holds the shared_ptr (a ModelHandle) pins the
// version: it is unloaded when the last handle goes. Immutable but for `model`, which the version's
// one batch runner alone calls.
struct ServableModel {
  std::string name;
  int64_t version = 0;
  engine::PackageManifest manifest;
  std::unique_ptr<engine::Model> model;
};

using ModelHandle = std::shared_ptr<const ServableModel>;

}  // namespace deform::lifecycle
