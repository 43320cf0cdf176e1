#include "engine/aoti/artifact_fit.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace deform::engine {
namespace {

std::string Find(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : found->second;
}

// "2.11.0+cu130" is the torch 2.11.0 of another build.
std::string WithoutLocalPart(const std::string& version) {
  return version.substr(0, version.find('+'));
}

std::string WhyCpuUnfit(const ArtifactSpec& artifact, const std::string& compiled_for,
                        const Host& host) {
  const std::vector<std::string> needed = absl::StrSplit(compiled_for, ' ', absl::SkipEmpty());
  if (needed.empty()) return "doesn't say for which CPU it was compiled";
  for (const std::string& isa : needed) {
    if (!host.cpu_isas.contains(isa))
      return absl::StrCat("is compiled for ", isa, ", which this CPU lacks");
  }
  // The first is the vector width; what follows are its extensions.
  if (!artifact.isa.empty() && absl::AsciiStrToLower(needed[0]) != artifact.isa)
    return absl::StrCat("is compiled for ", needed[0], ", the manifest says ", artifact.isa);
  return "";
}

}  // namespace

std::set<std::string> CpuIsas() {
  std::set<std::string> isas = {"INVALID_VEC_ISA"};  // compiled without vector instructions
  const auto add_if = [&isas](const char* name, bool supported) {
    if (supported) isas.insert(name);
  };
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw");
  add_if("AVX2", avx2);
  add_if("AVX512", avx512);
  add_if("AVX512_VNNI", avx512 && __builtin_cpu_supports("avx512vnni"));
  add_if("AMX_TILE", avx512 && __builtin_cpu_supports("amx-tile"));
  return isas;
}

std::string WhyUnfit(const ArtifactSpec& artifact, const Host& host) {
  if (artifact.device != host.device) return absl::StrCat("is for ", artifact.device);
  if (artifact.min_batch > 1)
    return absl::StrCat("takes batches of ", artifact.min_batch, " and more, never of 1");
  if (WithoutLocalPart(artifact.torch_version) != WithoutLocalPart(host.torch_version))
    return absl::StrCat("is for torch ", artifact.torch_version, ", this server has ",
                        host.torch_version);
  if (host.device == "cuda" && artifact.sm != host.compute_capability)
    return absl::StrCat("is for compute capability ", artifact.sm, ", this GPU has ",
                        host.compute_capability);
  const std::string isa = absl::AsciiStrToUpper(artifact.isa);
  if (!isa.empty() && !host.cpu_isas.contains(isa))
    return absl::StrCat("needs ", isa, ", which this CPU lacks");
  return "";
}

std::string WhyUnfit(const ArtifactSpec& artifact,
                     const std::map<std::string, std::string>& metadata, const Host& host) {
  const std::string device = Find(metadata, "AOTI_DEVICE_KEY");
  if (device != artifact.device)
    return absl::StrCat("is compiled for ", device.empty() ? "an unnamed device" : device,
                        ", the manifest says ", artifact.device);
  const std::string machine = Find(metadata, "AOTI_MACHINE");
  const std::string platform = Find(metadata, "AOTI_PLATFORM");
  if (machine != "x86_64" || platform != "linux")
    return absl::StrCat("is compiled for ", machine, " ", platform, ", not x86_64 linux");
  // The host side of a CUDA network is compiled for the CPU too.
  const std::string why = WhyCpuUnfit(artifact, Find(metadata, "AOTI_CPU_ISA"), host);
  if (!why.empty() || host.device == "cpu") return why;
  const std::string capability = Find(metadata, "AOTI_COMPUTE_CAPABILITY");
  if (capability != artifact.sm)
    return absl::StrCat("is compiled for compute capability \"", capability,
                        "\", the manifest says \"", artifact.sm, "\"");
  return "";
}

std::vector<ArtifactSpec> ByPreference(const PackageManifest& manifest) {
  std::vector<ArtifactSpec> artifacts = manifest.artifacts;
  const auto rank = [](const ArtifactSpec& artifact) {
    return artifact.isa == "avx512" ? 0 : artifact.isa == "avx2" ? 1 : 2;
  };
  std::stable_sort(artifacts.begin(), artifacts.end(),
                   [&](const ArtifactSpec& a, const ArtifactSpec& b) { return rank(a) < rank(b); });
  return artifacts;
}

}  // namespace deform::engine
