#include "lifecycle/model_manager.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/logging.h"
#include "lifecycle/load_version.h"
#include "lifecycle/repository_scan.h"

namespace deform::lifecycle {
namespace {

absl::Status NotServed(absl::StatusCode code, std::string_view message, std::string reason) {
  return base::MakeError(
      code, message,
      {.reason = std::move(reason), .field_violations = {}, .retry_after = std::nullopt});
}

}  // namespace

ModelManager::ModelManager(Options options, engine::ModelLoader* loader, base::Metrics* metrics)
    : options_(std::move(options)), loader_(loader), metrics_(metrics) {}

void ModelManager::SetReadinessListener(ReadinessListener listener) {
  listener_ = std::move(listener);
}

absl::Status ModelManager::LoadAll() {
  DEFORM_ASSIGN_OR_RETURN(const auto versions, FindNewestVersions(options_.repository));
  // All are known before the first is loaded: a request for a later one learns that it is loading,
  // not that there is no such model.
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, version] : versions)
      entries_[name].status = {name, version, ModelState::kLoading, ""};
  }
  for (const auto& [name, version] : versions) {
    metrics_->ModelReady(name, std::to_string(version)).Set(0);
    TellListener(name, false);
  }
  for (const auto& [name, version] : versions) LoadOne(name, version);
  {
    std::lock_guard lock(mutex_);
    loaded_ = true;
  }
  if (Ready()) TellListener("", true);
  return absl::OkStatus();
}

void ModelManager::LoadOne(const std::string& name, int64_t version) {
  base::Log(base::LogLevel::kInfo, "model_loading", {{"model", name}, {"version", version}});
  const std::string folder = absl::StrCat(options_.repository, "/", name, "/", version);
  auto handle = LoadVersion({name, version, folder}, options_.device, *loader_, *metrics_);
  metrics_->ModelLoadsTotal(name, handle.ok() ? "ok" : "failed").Increment();
  if (!handle.ok()) {
    const std::string reason(handle.status().message());
    base::Log(base::LogLevel::kError, "model_failed",
              {{"model", name}, {"version", version}, {"reason", reason}});
    SetState(name, ModelState::kFailed, reason, nullptr);
    return;
  }
  base::Log(base::LogLevel::kInfo, "model_ready",
            {{"model", name}, {"version", version}, {"device", (*handle)->model->device()}});
  metrics_->ModelReady(name, std::to_string(version)).Set(1);
  SetState(name, ModelState::kReady, "", *std::move(handle));
  TellListener(name, true);
}

void ModelManager::SetState(const std::string& name, ModelState state, std::string reason,
                            ModelHandle handle) {
  std::lock_guard lock(mutex_);
  Entry& entry = entries_[name];
  entry.status.state = state;
  entry.status.reason = std::move(reason);
  entry.handle = std::move(handle);
}

void ModelManager::TellListener(const std::string& name, bool ready) const {
  if (listener_) listener_(name, ready);
}

absl::StatusOr<ModelHandle> ModelManager::Acquire(const std::string& name, int64_t version) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(name);
  // The name is the caller's: it isn't repeated, as it may be long or not be text.
  if (found == entries_.end())
    return NotServed(absl::StatusCode::kNotFound, "there is no model of this name",
                     "MODEL_NOT_FOUND");
  const Entry& entry = found->second;
  if (version != 0 && version != entry.status.version)
    return NotServed(absl::StatusCode::kNotFound,
                     absl::StrCat("model \"", name, "\" has no version ", version,
                                  ", its version is ", entry.status.version),
                     "MODEL_NOT_FOUND");
  switch (entry.status.state) {
    case ModelState::kReady:
      return entry.handle;
    case ModelState::kLoading:
      return NotServed(absl::StatusCode::kUnavailable,
                       absl::StrCat("model \"", name, "\" is loading"), "MODEL_LOADING");
    case ModelState::kFailed:
      break;
  }
  return NotServed(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("model \"", name, "\" failed to load: ", entry.status.reason),
                   "MODEL_FAILED");
}

bool ModelManager::Ready() const {
  std::lock_guard lock(mutex_);
  return loaded_ && std::all_of(entries_.begin(), entries_.end(), [](const auto& item) {
           return item.second.status.state == ModelState::kReady;
         });
}

bool ModelManager::ModelReady(const std::string& name, int64_t version) const {
  return Acquire(name, version).ok();
}

std::vector<ModelStatus> ModelManager::List() const {
  std::lock_guard lock(mutex_);
  std::vector<ModelStatus> list;
  for (const auto& [name, entry] : entries_) list.push_back(entry.status);
  return list;
}

}  // namespace deform::lifecycle
