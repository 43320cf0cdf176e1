#include "engine/aoti/aoti_loader.h"

#include <torch/headeronly/version.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/logging.h"
#include "engine/aoti/aoti_model.h"
#include "engine/aoti/artifact_fit.h"
#include "engine/aoti/backend_fallbacks.h"
#include "engine/aoti/cuda_driver.h"
#include "engine/aoti/network_archive.h"
#include "engine/aoti/operators.h"

namespace deform::engine {
namespace {

absl::Status NoBackend(std::string_view message) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition, message,
      {.reason = "NO_BACKEND", .field_violations = {}, .retry_after = std::nullopt});
}

// N of "cuda:N", -1 for "cpu".
absl::StatusOr<int> ParseDeviceIndex(const std::string& device) {
  if (device == "cpu") return -1;
  constexpr std::string_view kCuda = "cuda:";
  int index = -1;
  const char* const end = device.data() + device.size();
  if (device.size() > kCuda.size() && std::string_view(device).substr(0, kCuda.size()) == kCuda) {
    const auto [parsed, error] = std::from_chars(device.data() + kCuda.size(), end, index);
    if (error == std::errc() && parsed == end && index >= 0) return index;
  }
  return base::InvalidField("device", absl::StrCat("is \"", device, "\", must be cpu or cuda:N"));
}

class AotiLoader final : public ModelLoader {
 public:
  absl::StatusOr<std::unique_ptr<Model>> Load(const PackageManifest& manifest,
                                              const std::string& folder,
                                              const std::string& device) override {
    DEFORM_ASSIGN_OR_RETURN(const int device_index, ParseDeviceIndex(device));
    // One network at a time: torch's loading isn't safe to run twice at once.
    std::lock_guard lock(mutex_);
    DEFORM_ASSIGN_OR_RETURN(const Host host, DescribeHost(device_index));
    std::vector<std::string> passed_over;
    for (const ArtifactSpec& artifact : ByPreference(manifest)) {
      std::unique_ptr<Model> model;
      const std::string why = LoadArtifact(manifest, artifact, folder + "/" + artifact.file, device,
                                           device_index, host, &model);
      if (why.empty()) {
        LogChoice(manifest, artifact, passed_over);
        return model;
      }
      passed_over.push_back(absl::StrCat("\"", artifact.file, "\" ", why));
    }
    return NoBackend(
        absl::StrCat("no artifact runs on ", device, ": ", absl::StrJoin(passed_over, "; ")));
  }

  const prometheus::Collectable* metrics() const override { return &fallbacks_; }

 private:
  static absl::StatusOr<Host> DescribeHost(int device_index) {
    Host host{.device = "cpu",
              .cpu_isas = CpuIsas(),
              .compute_capability = "",
              .torch_version = TorchVersion()};
    if (device_index < 0) return host;
    const int count = CudaDeviceCount();
    if (device_index >= count)
      return NoBackend(
          absl::StrCat("there is no GPU cuda:", device_index, ", this machine has ", count));
    if (const absl::Status opened = OpenTorchCuda(); !opened.ok())
      return NoBackend(std::string(opened.message()));
    host.device = "cuda";
    host.compute_capability = ComputeCapability(device_index);
    return host;
  }

  // Empty, and *model set; or why the artifact was passed over.
  static std::string LoadArtifact(const PackageManifest& manifest, const ArtifactSpec& artifact,
                                  const std::string& path, const std::string& device,
                                  int device_index, const Host& host,
                                  std::unique_ptr<Model>* model) {
    if (std::string why = WhyUnfit(artifact, host); !why.empty()) return why;
    for (const std::string& op : artifact.ops) {
      if (std::string why = WhyNotCallable(op, host.device); !why.empty()) return why;
    }
    auto archive = NetworkArchive::Open(path);
    if (!archive.ok()) return std::string(archive.status().message());
    if (std::string why = WhyUnfit(artifact, archive->metadata(), host); !why.empty()) return why;
    auto made = MakeAotiModel({.device = device,
                               .device_index = device_index,
                               .inputs = manifest.inputs,
                               .outputs = manifest.outputs,
                               .max_batch = std::min(manifest.max_batch, artifact.max_batch)},
                              *archive);
    if (!made.ok()) return std::string(made.status().message());
    *model = *std::move(made);
    return "";
  }

  static void LogChoice(const PackageManifest& manifest, const ArtifactSpec& artifact,
                        const std::vector<std::string>& passed_over) {
    base::Log(base::LogLevel::kInfo, "artifact_chosen",
              {{"model", manifest.name},
               {"artifact", artifact.file},
               {"passed_over", absl::StrJoin(passed_over, "; ")}});
  }

  const BackendFallbacks fallbacks_;
  std::mutex mutex_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelLoader>> MakeAotiLoader(AotiLoaderOptions options) {
  if (!options.op_library.empty()) DEFORM_RETURN_IF_ERROR(OpenOperatorLibrary(options.op_library));
  return std::make_unique<AotiLoader>();
}

bool CudaAvailable() { return CudaDeviceCount() > 0; }

std::string TorchVersion() {
  return absl::StrCat(TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR, ".", TORCH_VERSION_PATCH);
}

}  // namespace deform::engine
