#include "serving/resolve_options.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace deform::serving {
namespace {

using engine::Task;

// absl's string_view is not the standard library's everywhere.
std::string Name(Task task) { return std::string(engine::TaskName(task)); }

absl::StatusOr<Task> ResolveTask(const engine::PackageManifest& manifest,
                                 std::optional<Task> requested) {
  if (manifest.tasks.empty()) return absl::InternalError("the package has no task");
  const Task task = requested.value_or(manifest.tasks.front());
  if (!manifest.Supports(task)) {
    std::vector<std::string> names;
    for (Task supported : manifest.tasks) names.push_back(Name(supported));
    return base::InvalidField("task", absl::StrCat("the model doesn't answer ", Name(task),
                                                   "; it answers ", absl::StrJoin(names, ", ")));
  }
  const auto known = [](const engine::Label& label) { return label.is_thing.has_value(); };
  if (task == Task::kPanoptic &&
      !std::all_of(manifest.labels.begin(), manifest.labels.end(), known)) {
    return base::InvalidField(
        "task",
        "PANOPTIC needs to know of every label whether it is a thing or stuff, which the "
        "model's labels don't tell");
  }
  return task;
}

// What a client wrote may be of any length; what it gets back is not.
std::string Shorten(const std::string& text) {
  constexpr size_t kLongest = 64;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
}

// Collects all faults while it reads one option after the other.
class Reader {
 public:
  Reader(Task task, engine::Compat compat) : task_(task), compat_(compat) {}

  // NaN fails each comparison, hence the negation.
  void Threshold(std::string_view name, bool used, std::optional<float> requested, float& value) {
    if (!Usable(name, used, requested.has_value())) return;
    if (!(*requested >= 0.0f && *requested <= 1.0f)) {
      AddFault(name, absl::StrCat(*requested, " came, 0 to 1 is allowed"));
      return;
    }
    value = *requested;
  }

  void MaxResults(bool used, std::optional<int> requested, int& value) {
    if (!Usable("max_results", used, requested.has_value())) return;
    if (*requested < 1) {
      AddFault("max_results", absl::StrCat(*requested, " came, 1 or more is allowed"));
      return;
    }
    value = *requested;
  }

  // Every label that has the name is meant: data sets repeat names.
  void Labels(bool used, const std::vector<std::string>& names,
              const std::vector<engine::Label>& labels, std::vector<int32_t>& ids) {
    if (!Usable("labels", used, !names.empty())) return;
    for (const std::string& name : names) {
      bool found = false;
      for (const engine::Label& label : labels) {
        if (label.name != name) continue;
        found = true;
        if (std::find(ids.begin(), ids.end(), label.id) == ids.end()) ids.push_back(label.id);
      }
      if (!found) {
        AddFault("labels", absl::StrCat("the model has no label \"", Shorten(name), "\"; it has ",
                                        List(labels)));
        return;
      }
    }
  }

  absl::Status Status() const {
    if (faults_.empty()) return absl::OkStatus();
    if (faults_.size() == 1)
      return base::InvalidField(faults_.front().field, faults_.front().description);
    std::vector<std::string> texts;
    for (const base::FieldViolation& fault : faults_)
      texts.push_back(absl::StrCat("`", fault.field, "`: ", fault.description));
    return base::MakeError(
        absl::StatusCode::kInvalidArgument, absl::StrJoin(texts, "; "),
        {.reason = "INVALID_FIELD", .field_violations = faults_, .retry_after = {}});
  }

 private:
  // True when there is a value to read.
  bool Usable(std::string_view name, bool used, bool requested) {
    if (requested && !used) {
      AddFault(name, absl::StrCat("not used by the task ", Name(task_),
                                  compat_ == engine::Compat::kHuggingFace ? " with compat HF" : "",
                                  "; leave it unset"));
    }
    return requested && used;
  }

  void AddFault(std::string_view name, std::string description) {
    faults_.push_back({"options." + std::string(name), std::move(description)});
  }

  static std::string List(const std::vector<engine::Label>& labels) {
    constexpr size_t kMost = 20;
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(kMost, labels.size()); ++i) names.push_back(labels[i].name);
    if (labels.size() > kMost)
      names.push_back(absl::StrCat("and ", labels.size() - kMost, " more"));
    return absl::StrJoin(names, ", ");
  }

  const Task task_;
  const engine::Compat compat_;
  std::vector<base::FieldViolation> faults_;
};

}  // namespace

OptionUse UsedOptions(Task task, engine::Compat compat) {
  switch (task) {
    case Task::kInstance:
      return {true, compat != engine::Compat::kHuggingFace, false, true, true};
    case Task::kSemantic:
      return {false, false, false, false, false};
    case Task::kPanoptic:
      return {true, true, true, false, false};
    case Task::kDetection:
      return {true, false, false, true, true};
  }
  return {};
}

absl::StatusOr<pipeline::PostprocessOptions> ResolveOptions(const engine::PackageManifest& manifest,
                                                            std::optional<Task> task,
                                                            const RequestedOptions& requested) {
  pipeline::PostprocessOptions options;
  DEFORM_ASSIGN_OR_RETURN(options.task, ResolveTask(manifest, task));
  const engine::PostprocessDefaults& defaults = manifest.postprocess;
  options.compat = requested.compat.value_or(defaults.compat);
  options.score_threshold = defaults.score_threshold;
  options.mask_threshold = defaults.mask_threshold;
  options.overlap_mask_area_threshold = defaults.overlap_mask_area_threshold;
  options.max_results = defaults.max_results;

  const OptionUse use = UsedOptions(options.task, options.compat);
  Reader reader(options.task, options.compat);
  reader.Threshold("score_threshold", use.score_threshold, requested.score_threshold,
                   options.score_threshold);
  reader.Threshold("mask_threshold", use.mask_threshold, requested.mask_threshold,
                   options.mask_threshold);
  reader.Threshold("overlap_mask_area_threshold", use.overlap_mask_area_threshold,
                   requested.overlap_mask_area_threshold, options.overlap_mask_area_threshold);
  reader.MaxResults(use.max_results, requested.max_results, options.max_results);
  reader.Labels(use.labels, requested.label_names, manifest.labels, options.label_ids);
  DEFORM_RETURN_IF_ERROR(reader.Status());
  return options;
}

}  // namespace deform::serving
