#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "engine/model_loader.h"
#include "lifecycle/servable_model.h"

namespace deform::lifecycle {

enum class ModelState { kLoading, kReady, kFailed };

struct ModelStatus {
  std::string name;
  int64_t version = 0;
  ModelState state = ModelState::kLoading;
  std::string reason;  // why it failed; holds no path
};

// Loads the newest version of each model under a repository folder (NAME/VERSION/package.json),
// warms it, and hands out pinned versions. Thread-safe.
class ModelManager {
 public:
  struct Options {
    std::string repository;
    std::string device = "cpu";  // "cpu" or "cuda:N"
  };
  // Called outside of locks, from the loading thread: with false once for each model found, before
  // any is loaded, then when a model's readiness changes, and with name "" when that of the whole
  // (every model found serves) does.
  using ReadinessListener = std::function<void(const std::string& name, bool ready)>;

  ModelManager(Options options, engine::ModelLoader* loader, base::Metrics* metrics);

  // REQUIRES: before LoadAll.
  void SetReadinessListener(ReadinessListener listener);

  // Scans the repository and loads its models one after another: manifest, checksums, artifact,
  // warm-up at batch 1 and max_batch. A model that fails is kept with its reason and the others go
  // on. Blocks. FAILED_PRECONDITION when the repository can't be read or holds no model; a model
  // that fails is not an error of LoadAll.
  absl::Status LoadAll();

  // The pinned version. version 0: the newest that serves. NOT_FOUND (reason MODEL_NOT_FOUND) for
  // unknown names or versions, UNAVAILABLE (MODEL_LOADING) while it loads, FAILED_PRECONDITION
  // (MODEL_FAILED, with why) when its load failed.
  absl::StatusOr<ModelHandle> Acquire(const std::string& name, int64_t version) const;

  // True when LoadAll is through and every model found serves.
  bool Ready() const;
  bool ModelReady(const std::string& name, int64_t version) const;

  std::vector<ModelStatus> List() const;  // by name

 private:
  struct Entry {
    ModelStatus status;
    ModelHandle handle;
  };

  void LoadOne(const std::string& name, int64_t version);
  void SetState(const std::string& name, ModelState state, std::string reason, ModelHandle handle);
  void TellListener(const std::string& name, bool ready) const;

  const Options options_;
  engine::ModelLoader* const loader_;
  base::Metrics* const metrics_;
  ReadinessListener listener_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;  // guarded by mutex_
  bool loaded_ = false;                   // guarded by mutex_
};

}  // namespace deform::lifecycle
