#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/package_manifest.h"
#include "pipeline/postprocess.h"

namespace deform::serving {

// Unset: the package's default.
struct RequestedOptions {
  std::optional<float> score_threshold;
  std::optional<float> mask_threshold;
  std::optional<float> overlap_mask_area_threshold;
  std::optional<int> max_results;
  std::vector<std::string> label_names;  // class filter; empty: all
  std::optional<engine::Compat> compat;
};

// Which options a task has a use for:
//
//              score_threshold  mask_threshold  overlap_mask_area_threshold  max_results  labels
//   INSTANCE        used            used (1)              -                     used       used
//   SEMANTIC         -               -                    -                      -          -
//   PANOPTIC        used            used                 used                    -          -
//   DETECTION       used             -                    -                     used       used
//
// (1) Not with compat HF: the masks of Hugging Face's instances end where the logit is 0.
struct OptionUse {
  bool score_threshold, mask_threshold, overlap_mask_area_threshold, max_results, labels;
};
OptionUse UsedOptions(engine::Task task, engine::Compat compat);

// The options in effect: what was asked for, else the package's. `task` unset: the package's first.
// An option that the task has no use for is refused, so that nobody believes in its effect.
// INVALID_ARGUMENT names `task` (the package doesn't support it; PANOPTIC without thing or stuff
// for every label) or each faulty `options.…` (not finite, out of range, not used by the task,
// unknown label), all of them at once.
absl::StatusOr<pipeline::PostprocessOptions> ResolveOptions(const engine::PackageManifest& manifest,
                                                            std::optional<engine::Task> task,
                                                            const RequestedOptions& requested);

}  // namespace deform::serving
