#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/package_manifest.h"

namespace deform::engine {

// What decides which artifacts can run here.
struct Host {
  std::string device;              // "cpu" or "cuda"
  std::set<std::string> cpu_isas;  // as AOTI_CPU_ISA names them: "AVX2", "AVX512", …
  std::string compute_capability;  // of the GPU: "90"; empty for "cpu"
  std::string torch_version;       // "2.11.0"
};

// The instruction sets of this machine's CPU, as AOTI_CPU_ISA names them.
std::set<std::string> CpuIsas();

// Why `artifact` can't run on `host`, by the manifest alone; empty when nothing speaks against it.
// Reads on from the file's name.
std::string WhyUnfit(const ArtifactSpec& artifact, const Host& host);

// The same by what the archive says of itself: it must agree with the manifest, and with the host.
std::string WhyUnfit(const ArtifactSpec& artifact,
                     const std::map<std::string, std::string>& metadata, const Host& host);

// The artifacts of `manifest`, fastest first: avx512, avx2, then others, as listed among equals.
std::vector<ArtifactSpec> ByPreference(const PackageManifest& manifest);

}  // namespace deform::engine
