#include "engine/package_rules.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace deform::engine {
namespace {

std::string Item(std::string_view array, size_t index, std::string_view key = "") {
  const absl::string_view name(array.data(), array.size());
  std::string path = absl::StrCat(name, "[", index, "]");
  if (!key.empty()) absl::StrAppend(&path, ".", absl::string_view(key.data(), key.size()));
  return path;
}

// A file's own name: it can't lead out of the package folder.
bool IsPlainFileName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos &&
         name.find("..") == std::string_view::npos;
}

// Model names are labels of metrics, folders and parts of other names ("NAME.image"), so that they
// have no dot.
bool IsModelName(std::string_view name) {
  return !name.empty() && name.size() <= 128 && absl::ascii_isalnum(name[0]) &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

void CheckLabels(const PackageManifest& manifest, JsonFaults* faults) {
  if (manifest.labels.empty()) faults->Add("labels", "is empty");
  std::set<int32_t> ids;
  for (size_t i = 0; i < manifest.labels.size(); ++i) {
    const Label& label = manifest.labels[i];
    if (label.name.empty()) faults->Add(Item("labels", i, "name"), "is empty");
    if (label.id >= manifest.num_classes)
      faults->Add(
          Item("labels", i, "id"),
          absl::StrCat("is ", label.id, ", must be below num_classes, ", manifest.num_classes));
    if (!ids.insert(label.id).second)
      faults->Add(Item("labels", i, "id"), absl::StrCat("is ", label.id, " a second time"));
  }
  for (size_t i = 0; i < manifest.postprocess.fuse_label_ids.size(); ++i) {
    if (!ids.contains(manifest.postprocess.fuse_label_ids[i]))
      faults->Add(Item("postprocess.fuse_label_ids", i), "is not the id of a label");
  }
}

void CheckTasks(const PackageManifest& manifest, JsonFaults* faults) {
  if (manifest.tasks.empty()) faults->Add("tasks", "is empty");
  for (size_t i = 0; i < manifest.tasks.size(); ++i) {
    const Task task = manifest.tasks[i];
    if (std::count(manifest.tasks.begin(), manifest.tasks.end(), task) > 1)
      faults->Add(Item("tasks", i), "appears more than once");
    if ((task == Task::kDetection) != (manifest.architecture == Architecture::kDeformableDetr))
      faults->Add(Item("tasks", i), "is not a task of this architecture");
    if (task == Task::kPanoptic &&
        std::any_of(manifest.labels.begin(), manifest.labels.end(),
                    [](const Label& label) { return !label.is_thing.has_value(); }))
      faults->Add(Item("tasks", i), "is PANOPTIC, which needs is_thing of every label");
  }
}

void AppendSize(std::string* out, int64_t size) {
  size == 0 ? absl::StrAppend(out, "any") : absl::StrAppend(out, size);
}

// Names and shapes that the pipeline relies on; a size of 0 may be any.
void CheckTensors(std::string_view array, const std::vector<TensorSpec>& tensors,
                  const std::vector<TensorSpec>& wanted, JsonFaults* faults) {
  if (tensors.size() != wanted.size()) {
    faults->Add(
        std::string(array),
        absl::StrCat("has ", tensors.size(), " items, must have ", wanted.size(), ": ",
                     absl::StrJoin(wanted, ", ", [](std::string* out, const TensorSpec& spec) {
                       out->append(spec.name);
                     })));
    return;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != wanted[i].name)
      faults->Add(Item(array, i, "name"), absl::StrCat("must be ", wanted[i].name));
    if (tensors[i].dtype != wanted[i].dtype) {
      const std::string_view dtype = DTypeName(wanted[i].dtype);
      faults->Add(Item(array, i, "dtype"),
                  absl::StrCat("must be ", absl::string_view(dtype.data(), dtype.size())));
    }
    bool same = tensors[i].shape.size() == wanted[i].shape.size();
    for (size_t axis = 0; same && axis < wanted[i].shape.size(); ++axis)
      same = wanted[i].shape[axis] == 0 || tensors[i].shape[axis] == wanted[i].shape[axis];
    if (!same)
      faults->Add(Item(array, i, "shape"),
                  absl::StrCat("must be [", absl::StrJoin(wanted[i].shape, ", ", AppendSize), "]"));
  }
}

void CheckTensors(const PackageManifest& manifest, JsonFaults* faults) {
  const PreprocessSpec& preprocess = manifest.preprocess;
  std::vector<TensorSpec> inputs = {
      {"pixel_values", DType::kFloat32, {-1, 3, preprocess.height, preprocess.width}}};
  if (preprocess.pixel_mask)
    inputs.push_back({"pixel_mask", DType::kInt64, {-1, preprocess.height, preprocess.width}});
  CheckTensors("inputs", manifest.inputs, inputs, faults);

  const int64_t queries = manifest.num_queries;
  const int64_t classes = manifest.num_classes;
  const bool segments = manifest.architecture == Architecture::kMask2Former;
  const std::vector<TensorSpec> outputs =
      segments
          ? std::vector<TensorSpec>{{"class_queries_logits",
                                     DType::kFloat32,
                                     {-1, queries, classes + 1}},
                                    {"masks_queries_logits", DType::kFloat32, {-1, queries, 0, 0}}}
          : std::vector<TensorSpec>{{"logits", DType::kFloat32, {-1, queries, classes}},
                                    {"pred_boxes", DType::kFloat32, {-1, queries, 4}}};
  CheckTensors("outputs", manifest.outputs, outputs, faults);
}

void CheckArtifacts(const PackageManifest& manifest, JsonFaults* faults) {
  if (manifest.artifacts.empty()) faults->Add("artifacts", "is empty");
  std::set<std::string> seen;
  for (size_t i = 0; i < manifest.artifacts.size(); ++i) {
    const ArtifactSpec& artifact = manifest.artifacts[i];
    if (!manifest.files.contains(artifact.file))
      faults->Add(Item("artifacts", i, "file"), "is not among files");
    if (!seen.insert(artifact.file).second)
      faults->Add(Item("artifacts", i, "file"), "is that of another artifact too");
    const bool on_cpu = artifact.device == "cpu";
    const bool isa_known = artifact.isa == "avx2" || artifact.isa == "avx512";
    if (on_cpu ? !isa_known : !artifact.isa.empty())
      faults->Add(Item("artifacts", i, "isa"),
                  on_cpu ? "must be avx2 or avx512 for cpu" : "must be null for cuda");
    const bool sm_is_number =
        !artifact.sm.empty() && artifact.sm.size() <= 3 &&
        std::all_of(artifact.sm.begin(), artifact.sm.end(), absl::ascii_isdigit);
    if (on_cpu ? !artifact.sm.empty() : !sm_is_number)
      faults->Add(Item("artifacts", i, "sm"),
                  on_cpu ? "must be null for cpu" : "must be a compute capability such as \"90\"");
    for (size_t op = 0; op < artifact.ops.size(); ++op) {
      const size_t colons = artifact.ops[op].find("::");
      if (colons == 0 || colons == std::string::npos || colons + 2 == artifact.ops[op].size())
        faults->Add(Item(Item("artifacts", i, "ops"), op), "must be NAMESPACE::NAME");
    }
  }
}

void CheckFiles(const PackageManifest& manifest, JsonFaults* faults) {
  for (const auto& [name, file] : manifest.files) {
    const std::string path = absl::StrCat("files[\"", name, "\"]");
    if (!IsPlainFileName(name))
      faults->Add(path, "must be a file's own name: no separator, no \"..\", no leading dot");
    if (name == "package.json") faults->Add(path, "can't hold its own sum");
    const bool hex = std::all_of(file.sha256.begin(), file.sha256.end(), [](unsigned char c) {
      return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
    });
    if (file.sha256.size() != 64 || !hex)
      faults->Add(absl::StrCat(path, ".sha256"), "must be 64 lower-case hexadecimal digits");
  }
}

}  // namespace

void CheckPackageRules(const PackageManifest& manifest, JsonFaults* faults) {
  if (!IsModelName(manifest.name))
    faults->Add("name",
                "must be 1 to 128 letters, digits, \"_\" or \"-\", the first a letter or "
                "digit");
  for (size_t i = 0; i < manifest.preprocess.std.size(); ++i) {
    if (manifest.preprocess.std[i] <= 0) faults->Add(Item("preprocess.std", i), "must be above 0");
  }
  if (manifest.preprocess.pixel_mask != (manifest.architecture == Architecture::kDeformableDetr))
    faults->Add("preprocess.pixel_mask",
                "must be true for deformable_detr and false for mask2former");
  CheckLabels(manifest, faults);
  CheckTasks(manifest, faults);
  CheckTensors(manifest, faults);
  CheckArtifacts(manifest, faults);
  CheckFiles(manifest, faults);
}

}  // namespace deform::engine
