#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor.h"

namespace deform::engine {

// package.json, read and checked. models/deform_models/schema/package.schema.json is its schema.

enum class Architecture { kMask2Former, kDeformableDetr };
enum class Task { kInstance, kSemantic, kPanoptic, kDetection };
enum class Compat { kDefault, kHuggingFace };

std::string_view TaskName(Task task);  // "INSTANCE", …

struct Label {
  int32_t id = 0;           // class index of the network
  int32_t category_id = 0;  // id in the data set
  std::string name;
  std::optional<bool> is_thing;    // nullopt: not known
  std::array<uint8_t, 3> color{};  // RGB
};

struct PreprocessSpec {
  enum class Mode { kExact, kFit };
  Mode mode = Mode::kExact;
  int height = 0;  // of the network's input, pixels
  int width = 0;
  bool antialias = true;
  double rescale_factor = 1.0 / 255.0;
  std::array<double, 3> mean{};  // RGB, after rescaling
  std::array<double, 3> std{};
  bool pixel_mask = false;  // the network takes pixel_mask [B, H, W] int64 as second input
};

struct PostprocessDefaults {
  Compat compat = Compat::kDefault;
  float score_threshold = 0.5f;
  float mask_threshold = 0.5f;
  float overlap_mask_area_threshold = 0.8f;
  int max_results = 100;
  std::vector<int32_t> fuse_label_ids;  // network ids merged into one segment in panoptic answers
};

struct ArtifactSpec {
  std::string file;
  std::string device;  // "cpu" or "cuda"
  std::string isa;     // "avx2", "avx512" or empty
  std::string sm;      // "90" or empty
  std::string dtype;
  int min_batch = 1;
  int max_batch = 1;
  std::string torch_version;
  std::vector<std::string> ops;  // "deform::msda"
};

struct PackageFile {
  std::string sha256;  // lower-case hexadecimal
  int64_t bytes = 0;
};

struct PackageManifest {
  std::string name;
  Architecture architecture = Architecture::kMask2Former;
  std::string description;
  std::vector<Task> tasks;
  std::vector<Label> labels;
  PreprocessSpec preprocess;
  PostprocessDefaults postprocess;
  int num_queries = 0;
  int num_classes = 0;  // without the "no object" class
  int max_batch = 1;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<ArtifactSpec> artifacts;
  std::map<std::string, PackageFile> files;

  bool Supports(Task task) const;
  // The label of network class `id`, or nullptr.
  const Label* FindLabel(int32_t id) const;
};

// Parses and checks the text of package.json. Every fault is named by its JSON path
// ("artifacts[0].file: …"), all of them in one message: FAILED_PRECONDITION, reason
// PACKAGE_INVALID, a field violation for each. File names with a separator, ".." or a leading dot
// are refused, and so are keys that the schema doesn't know.
absl::StatusOr<PackageManifest> ParsePackageManifest(std::string_view json);

// Refuses a package folder whose files differ in size or SHA-256 from the manifest's, or that
// lacks one. FAILED_PRECONDITION, reason PACKAGE_DAMAGED, names the file (its name, no path).
absl::Status VerifyPackageFiles(const PackageManifest& manifest, const std::string& folder);

}  // namespace deform::engine
