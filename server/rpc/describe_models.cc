#include "rpc/describe_models.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "rpc/decode_request.h"
#include "rpc/encode_response.h"
#include "rpc/violations.h"

namespace deform::rpc {

namespace v1 = segmentation::v1;

namespace {

constexpr uint32_t kDefaultPageSize = 100;
constexpr uint32_t kMaxPageSize = 1000;

using ModelKey = std::pair<std::string, int64_t>;

v1::ModelState EncodeState(lifecycle::ModelState state) {
  switch (state) {
    case lifecycle::ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case lifecycle::ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case lifecycle::ModelState::kFailed:
      return v1::MODEL_STATE_FAILED;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

void EncodeSummary(const lifecycle::ModelStatus& status, v1::ModelSummary& out) {
  out.set_name(status.name);
  out.set_version(status.version);
  out.set_state(EncodeState(status.state));
  out.set_reason(status.reason);
}

std::string EncodePageToken(const ModelKey& last) {
  return absl::StrCat(last.second, "/", last.first);
}

std::optional<ModelKey> DecodePageToken(const std::string& token) {
  const size_t slash = token.find('/');
  ModelKey key;
  if (slash == std::string::npos || !absl::SimpleAtoi(token.substr(0, slash), &key.second)) {
    return std::nullopt;
  }
  key.first = token.substr(slash + 1);
  return key;
}

void EncodeManifest(const lifecycle::ServableModel& model, v1::GetModelResponse& out) {
  const engine::PackageManifest& manifest = model.manifest;
  out.set_description(manifest.description);
  out.set_architecture(manifest.architecture == engine::Architecture::kMask2Former
                           ? "mask2former"
                           : "deformable_detr");
  for (const engine::Task task : manifest.tasks) out.add_tasks(EncodeTask(task));
  for (const engine::Label& label : manifest.labels) {
    v1::Label& added = *out.add_labels();
    added.set_label_id(label.id);
    added.set_category_id(label.category_id);
    added.set_name(label.name);
    if (label.is_thing) added.set_is_thing(*label.is_thing);
    added.set_color(label.color[0] << 16 | label.color[1] << 8 | label.color[2]);
  }
  out.set_input_width(manifest.preprocess.width);
  out.set_input_height(manifest.preprocess.height);
  out.set_max_batch(model.model->max_batch());
  out.set_device(model.model->device());
}

}  // namespace

absl::Status ListModels(const lifecycle::ModelManager& models, const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response) {
  Violations violations;
  if (request.page_size() > kMaxPageSize) {
    violations.Add("page_size", absl::StrCat(request.page_size(), "; at most ", kMaxPageSize,
                                             " is allowed, 0 means ", kDefaultPageSize));
  }
  std::optional<ModelKey> after;
  if (!request.page_token().empty()) {
    after = DecodePageToken(request.page_token());
    if (!after) violations.Add("page_token", "is none that this call returned");
  }
  DEFORM_RETURN_IF_ERROR(violations.ToStatus());

  const auto key = [](const lifecycle::ModelStatus& m) { return ModelKey(m.name, m.version); };
  std::vector<lifecycle::ModelStatus> found = models.List();
  std::sort(found.begin(), found.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  const auto begin = std::find_if(found.begin(), found.end(),
                                  [&](const auto& m) { return !after || *after < key(m); });
  const size_t page_size = request.page_size() == 0 ? kDefaultPageSize : request.page_size();
  const auto end = begin + std::min<ptrdiff_t>(page_size, found.end() - begin);
  for (auto model = begin; model != end; ++model) EncodeSummary(*model, *response.add_models());
  if (end != found.end()) response.set_next_page_token(EncodePageToken(key(*(end - 1))));
  return absl::OkStatus();
}

absl::Status GetModel(const lifecycle::ModelManager& models, const v1::GetModelRequest& request,
                      v1::GetModelResponse& response) {
  Violations violations;
  CheckModelName("name", request.name(), violations);
  CheckVersion("version", request.version(), violations);
  DEFORM_RETURN_IF_ERROR(violations.ToStatus());

  const auto handle = models.Acquire(request.name(), request.version());
  if (handle.ok()) {
    EncodeSummary({.name = (*handle)->name,
                   .version = (*handle)->version,
                   .state = lifecycle::ModelState::kReady,
                   .reason = ""},
                  *response.mutable_summary());
    EncodeManifest(**handle, response);
    return absl::OkStatus();
  }
  if (absl::IsNotFound(handle.status())) return handle.status();
  // It exists and doesn't serve: what is asked for is why.
  for (const lifecycle::ModelStatus& status : models.List()) {
    const bool asked_for = request.version() == 0 || request.version() == status.version;
    if (status.name != request.name() || !asked_for) continue;
    EncodeSummary(status, *response.mutable_summary());
    return absl::OkStatus();
  }
  return handle.status();
}

}  // namespace deform::rpc
