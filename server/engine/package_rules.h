#pragma once

#include "engine/json_fields.h"
#include "engine/package_manifest.h"

namespace deform::engine {

// Adds to `faults` what one field of a manifest says against another: names, tasks against labels,
// tensors against the architecture, artifacts against files. A field that was faulty in itself is
// empty or zero here and may be named a second time.
void CheckPackageRules(const PackageManifest& manifest, JsonFaults* faults);

}  // namespace deform::engine
