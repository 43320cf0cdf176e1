#include "engine/package_manifest.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "engine/json_fields.h"
#include "engine/package_rules.h"
#include "nlohmann/json.hpp"

namespace deform::engine {
namespace {

using nlohmann::json;

// The bounds of the schema, so that all sizes fit in an int and their products in 64 bits.
constexpr int64_t kLargestSide = 16384;  // pixels
constexpr int64_t kLargestBatch = 4096;
constexpr int64_t kLargestCount = 100000;  // of results, queries, classes
constexpr int64_t kLargestId = (1LL << 31) - 1;
constexpr int64_t kLargestFileBytes = 1LL << 50;

Label ReadLabel(JsonFields fields) {
  Label label;
  label.id = static_cast<int32_t>(fields.Integer("id", 0, kLargestId));
  label.category_id = static_cast<int32_t>(fields.Integer("category_id", 0, kLargestId));
  label.name = fields.String("name");
  if (fields.IsNull("is_thing")) {
    fields.AcceptAnything("is_thing");
  } else {
    label.is_thing = fields.Boolean("is_thing");
  }
  const std::vector<int64_t> color = fields.Integers("color", 0, 255);
  if (color.size() == label.color.size()) {
    std::copy(color.begin(), color.end(), label.color.begin());
  } else {
    fields.Fault("color", "must be three whole numbers from 0 to 255: red, green, blue");
  }
  fields.RefuseOtherKeys();
  return label;
}

PreprocessSpec ReadPreprocess(JsonFields fields) {
  PreprocessSpec spec;
  spec.mode = fields.OneOf<PreprocessSpec::Mode>(
      "mode", {{"exact", PreprocessSpec::Mode::kExact}, {"fit", PreprocessSpec::Mode::kFit}});
  spec.height = static_cast<int>(fields.Integer("height", 1, kLargestSide));
  spec.width = static_cast<int>(fields.Integer("width", 1, kLargestSide));
  fields.OneOf<int>("resample", {{"bilinear", 0}});
  spec.antialias = fields.Boolean("antialias");
  if (fields.Has("antialias") && !spec.antialias) fields.Fault("antialias", "must be true");
  spec.rescale_factor = fields.Number("rescale_factor", 1e-12, 1e12);
  const std::vector<double> mean = fields.Numbers("mean", spec.mean.size());
  const std::vector<double> std = fields.Numbers("std", spec.std.size());
  std::copy(mean.begin(), mean.end(), spec.mean.begin());
  std::copy(std.begin(), std.end(), spec.std.begin());
  spec.pixel_mask = fields.Boolean("pixel_mask");
  fields.RefuseOtherKeys();
  return spec;
}

PostprocessDefaults ReadPostprocess(JsonFields fields) {
  PostprocessDefaults defaults;
  defaults.compat =
      fields.OneOf<Compat>("compat", {{"DEFAULT", Compat::kDefault}, {"HF", Compat::kHuggingFace}});
  defaults.score_threshold = static_cast<float>(fields.Number("score_threshold", 0, 1));
  defaults.mask_threshold = static_cast<float>(fields.Number("mask_threshold", 0, 1));
  defaults.overlap_mask_area_threshold =
      static_cast<float>(fields.Number("overlap_mask_area_threshold", 0, 1));
  defaults.max_results = static_cast<int>(fields.Integer("max_results", 1, kLargestCount));
  for (const int64_t id : fields.Integers("fuse_label_ids", 0, kLargestId))
    defaults.fuse_label_ids.push_back(static_cast<int32_t>(id));
  fields.RefuseOtherKeys();
  return defaults;
}

DType ReadDType(JsonFields& fields) {
  const std::string name = fields.String("dtype");
  const auto dtype = ParseDType(name);
  if (!dtype.ok() && !name.empty()) fields.Fault("dtype", std::string(dtype.status().message()));
  return dtype.value_or(DType::kFloat32);
}

TensorSpec ReadTensorSpec(JsonFields fields) {
  TensorSpec spec;
  spec.name = fields.String("name");
  spec.dtype = ReadDType(fields);
  spec.shape = fields.Integers("shape", -1, 1LL << 31);
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    if ((spec.shape[axis] == -1) != (axis == 0) || spec.shape[axis] == 0)
      fields.Fault("shape", "must begin with -1, the batch, and be positive after it");
  }
  if (spec.shape.empty()) fields.Fault("shape", "must begin with -1, the batch");
  fields.RefuseOtherKeys();
  return spec;
}

ArtifactSpec ReadArtifact(JsonFields fields, const PreprocessSpec& preprocess) {
  ArtifactSpec artifact;
  artifact.file = fields.String("file");
  artifact.device = fields.OneOf<std::string>("device", {{"cpu", "cpu"}, {"cuda", "cuda"}});
  // A string or null, the null read as empty.
  const auto optional_string = [&](std::string_view key) {
    if (!fields.IsNull(key)) return fields.String(key);
    fields.AcceptAnything(key);
    return std::string();
  };
  artifact.isa = optional_string("isa");
  artifact.sm = optional_string("sm");
  artifact.dtype = fields.OneOf<std::string>(
      "dtype", {{"float32", "float32"}, {"float16", "float16"}, {"bfloat16", "bfloat16"}});
  const int64_t height = fields.Integer("height", 1, kLargestSide);
  const int64_t width = fields.Integer("width", 1, kLargestSide);
  if (height != preprocess.height || width != preprocess.width)
    fields.Fault("height", "and width must be those of `preprocess`");
  artifact.min_batch = static_cast<int>(fields.Integer("min_batch", 1, kLargestBatch));
  artifact.max_batch = static_cast<int>(fields.Integer("max_batch", 1, kLargestBatch));
  if (artifact.max_batch < artifact.min_batch) fields.Fault("max_batch", "is less than min_batch");
  artifact.torch_version = fields.String("torch");
  artifact.ops = fields.Strings("ops");
  fields.Number("compile_seconds", 0, 1e9);
  fields.Integer("bytes", 0, kLargestFileBytes);
  fields.RefuseOtherKeys();
  return artifact;
}

PackageManifest ReadManifest(const json& document, JsonFaults* faults) {
  JsonFields fields(document, "", faults);
  PackageManifest manifest;
  fields.Integer("schema_version", 1, 1);
  manifest.name = fields.String("name");
  manifest.architecture = fields.OneOf<Architecture>(
      "architecture", {{"mask2former", Architecture::kMask2Former},
                       {"deformable_detr", Architecture::kDeformableDetr}});
  if (fields.Has("description")) manifest.description = fields.String("description");
  const std::vector<std::string> tasks = fields.Strings("tasks");
  for (size_t i = 0; i < tasks.size(); ++i) {
    constexpr Task kTasks[] = {Task::kInstance, Task::kSemantic, Task::kPanoptic, Task::kDetection};
    const auto* task = std::find_if(std::begin(kTasks), std::end(kTasks),
                                    [&](Task task) { return TaskName(task) == tasks[i]; });
    if (task == std::end(kTasks)) {
      faults->Add(absl::StrCat("tasks[", i, "]"),
                  "is none of INSTANCE, SEMANTIC, PANOPTIC, "
                  "DETECTION");
    } else {
      manifest.tasks.push_back(*task);
    }
  }
  fields.Objects("labels", [&](JsonFields label) { manifest.labels.push_back(ReadLabel(label)); });
  manifest.preprocess = ReadPreprocess(fields.Object("preprocess"));
  manifest.postprocess = ReadPostprocess(fields.Object("postprocess"));
  manifest.num_queries = static_cast<int>(fields.Integer("num_queries", 1, kLargestCount));
  manifest.num_classes = static_cast<int>(fields.Integer("num_classes", 1, kLargestCount));
  manifest.max_batch = static_cast<int>(fields.Integer("max_batch", 1, kLargestBatch));
  fields.Objects("inputs",
                 [&](JsonFields spec) { manifest.inputs.push_back(ReadTensorSpec(spec)); });
  fields.Objects("outputs",
                 [&](JsonFields spec) { manifest.outputs.push_back(ReadTensorSpec(spec)); });
  fields.Objects("artifacts", [&](JsonFields artifact) {
    manifest.artifacts.push_back(ReadArtifact(artifact, manifest.preprocess));
  });
  fields.Members("files", [&](const std::string& name, JsonFields file) {
    manifest.files[name] = {file.String("sha256"), file.Integer("bytes", 0, kLargestFileBytes)};
    file.RefuseOtherKeys();
  });
  // For people and for deform-package; the server reads nothing in them.
  fields.AcceptAnything("source");
  fields.AcceptAnything("parity");
  fields.RefuseOtherKeys();
  return manifest;
}

absl::Status InvalidPackage(const std::vector<base::FieldViolation>& faults) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("package.json: ",
                   absl::StrJoin(faults, "; ",
                                 [](std::string* out, const base::FieldViolation& fault) {
                                   absl::StrAppend(out, fault.field,
                                                   fault.field.empty() ? "" : ": ",
                                                   fault.description);
                                 })),
      {.reason = "PACKAGE_INVALID", .field_violations = faults, .retry_after = std::nullopt});
}

}  // namespace

std::string_view TaskName(Task task) {
  switch (task) {
    case Task::kInstance:
      return "INSTANCE";
    case Task::kSemantic:
      return "SEMANTIC";
    case Task::kPanoptic:
      return "PANOPTIC";
    case Task::kDetection:
      return "DETECTION";
  }
  return "";
}

bool PackageManifest::Supports(Task task) const {
  return std::find(tasks.begin(), tasks.end(), task) != tasks.end();
}

const Label* PackageManifest::FindLabel(int32_t id) const {
  const auto found = std::find_if(labels.begin(), labels.end(),
                                  [id](const Label& label) { return label.id == id; });
  return found == labels.end() ? nullptr : &*found;
}

absl::StatusOr<PackageManifest> ParsePackageManifest(std::string_view text) {
  JsonFaults faults;
  // Of two equal keys other readers may take the other one: neither is trusted.
  std::vector<std::set<std::string>> keys_of_open_objects;
  const auto note_keys = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys_of_open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) keys_of_open_objects.pop_back();
    if (event == json::parse_event_t::key &&
        !keys_of_open_objects.back().insert(value.get<std::string>()).second)
      faults.Add(value.get<std::string>(), "appears twice in one object");
    return true;
  };
  const json document = json::parse(text, note_keys, /*allow_exceptions=*/false);
  if (document.is_discarded()) return InvalidPackage({{"", "is not JSON"}});

  PackageManifest manifest = ReadManifest(document, &faults);
  CheckPackageRules(manifest, &faults);
  if (!faults.list().empty()) return InvalidPackage(faults.list());
  return manifest;
}

}  // namespace deform::engine
