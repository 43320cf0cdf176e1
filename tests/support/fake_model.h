#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model.h"
#include "engine/model_loader.h"
#include "engine/package_manifest.h"

namespace deform::testing {

// What a FakeModel is, does and saw. Shared between the model and its test, so that it may be asked
// after the model is gone. Thread-safe, but for the specs, which are set before the first run.
//
//   auto network = std::make_shared<FakeNetwork>();
//   network->CloseGate();                      // runs block from here on
//   … submit something …
//   network->WaitUntilRunning();               // a run is inside the network
//   … submit more; it has to queue …
//   network->Release();                        // that one run ends
//   network->OpenGate();                       // everything passes again
class FakeNetwork {
 public:
  using OutputsFunction = std::function<absl::StatusOr<std::vector<engine::Tensor>>(
      absl::Span<const engine::Tensor> inputs)>;

  std::string device = "cpu";
  std::vector<engine::TensorSpec> inputs = {{"x", engine::DType::kFloat32, {-1, 2}}};
  std::vector<engine::TensorSpec> outputs = {{"y", engine::DType::kFloat32, {-1, 1}}};
  int max_batch = 8;

  // Replaces the default answer: every float32 output row is filled with the first element of the
  // same row of the first input (0 unless that is float32); other dtypes are zeros.
  void SetOutputs(OutputsFunction function) {
    std::lock_guard lock(mutex_);
    outputs_function_ = std::move(function);
  }

  // From now on a run blocks inside the network until Release or OpenGate.
  void CloseGate() {
    std::lock_guard lock(mutex_);
    gate_open_ = false;
    permits_ = 0;
  }
  // Lets `runs` runs end, those inside first.
  void Release(int runs = 1) {
    std::lock_guard lock(mutex_);
    permits_ += runs;
    changed_.notify_all();
  }
  void OpenGate() {
    std::lock_guard lock(mutex_);
    gate_open_ = true;
    changed_.notify_all();
  }
  // Blocks until a run waits at the closed gate.
  void WaitUntilRunning() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  // Blocks until `runs` runs have ended since the network was made.
  void WaitUntilRan(int runs) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= runs; });
  }

  // The inputs of every run that began, in order; warm-up runs count.
  std::vector<std::vector<engine::Tensor>> batches() const {
    std::lock_guard lock(mutex_);
    return batches_;
  }
  // The number of rows of every run that began, in order.
  std::vector<int64_t> batch_sizes() const {
    std::lock_guard lock(mutex_);
    std::vector<int64_t> sizes;
    for (const auto& batch : batches_) sizes.push_back(batch.front().shape().front());
    return sizes;
  }
  void ForgetBatches() {
    std::lock_guard lock(mutex_);
    batches_.clear();
  }
  // Models of this network that are alive.
  int live_models() const {
    std::lock_guard lock(mutex_);
    return live_models_;
  }

  absl::StatusOr<std::vector<engine::Tensor>> Run(absl::Span<const engine::Tensor> batch) {
    if (absl::Status status = engine::CheckInputs(inputs, max_batch, batch); !status.ok())
      return status;
    OutputsFunction function;
    {
      std::unique_lock lock(mutex_);
      batches_.emplace_back(batch.begin(), batch.end());
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return gate_open_ || permits_ > 0; });
      --waiting_;
      if (!gate_open_) --permits_;
      function = outputs_function_;
    }
    auto answer = function ? function(batch) : DefaultOutputs(batch);
    std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
    return answer;
  }

 private:
  friend class FakeModel;

  std::vector<engine::Tensor> DefaultOutputs(absl::Span<const engine::Tensor> batch) const {
    const int64_t rows = batch.front().shape().front();
    std::vector<engine::Tensor> answer;
    for (const engine::TensorSpec& spec : outputs) {
      std::vector<int64_t> shape = spec.shape;
      for (int64_t& size : shape) size = size < 0 ? rows : size;
      engine::Tensor tensor = engine::Tensor::Allocate(spec.dtype, shape);
      std::memset(tensor.mutable_data(), 0, tensor.bytes());
      if (spec.dtype == engine::DType::kFloat32 &&
          batch.front().dtype() == engine::DType::kFloat32) {
        const int64_t row_size = tensor.element_count() / rows;
        float* out = static_cast<float*>(tensor.mutable_data());
        for (int64_t row = 0; row < rows; ++row) {
          const float first = *batch.front().Row(row).data_as<float>();
          for (int64_t i = 0; i < row_size; ++i) out[row * row_size + i] = first;
        }
      }
      answer.push_back(std::move(tensor));
    }
    return answer;
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  OutputsFunction outputs_function_;
  bool gate_open_ = true;
  int permits_ = 0;
  int waiting_ = 0;
  int ended_ = 0;
  int live_models_ = 0;
  std::vector<std::vector<engine::Tensor>> batches_;
};

// A Model that does what its FakeNetwork says.
class FakeModel final : public engine::Model {
 public:
  explicit FakeModel(std::shared_ptr<FakeNetwork> network) : network_(std::move(network)) {
    std::lock_guard lock(network_->mutex_);
    ++network_->live_models_;
  }
  ~FakeModel() override {
    std::lock_guard lock(network_->mutex_);
    --network_->live_models_;
  }

  const std::string& device() const override { return network_->device; }
  const std::vector<engine::TensorSpec>& inputs() const override { return network_->inputs; }
  const std::vector<engine::TensorSpec>& outputs() const override { return network_->outputs; }
  int max_batch() const override { return network_->max_batch; }
  absl::StatusOr<std::vector<engine::Tensor>> Run(
      absl::Span<const engine::Tensor> inputs) override {
    return network_->Run(inputs);
  }

 private:
  const std::shared_ptr<FakeNetwork> network_;
};

// Loads every package as a FakeModel with the specs and max_batch of its manifest, opening no file.
// Thread-safe.
class FakeModelLoader final : public engine::ModelLoader {
 public:
  // The network behind the model `name`, made when first asked for: may be asked for, and set up,
  // before the model is loaded.
  std::shared_ptr<FakeNetwork> network(const std::string& name) {
    std::lock_guard lock(mutex_);
    auto& network = networks_[name];
    if (!network) network = std::make_shared<FakeNetwork>();
    return network;
  }

  // Load of `name` answers `status` from now on; OK: it loads again.
  void SetLoadStatus(const std::string& name, absl::Status status) {
    std::lock_guard lock(mutex_);
    load_status_[name] = std::move(status);
  }

  // Folders that Load was called with, in order.
  std::vector<std::string> loaded_folders() const {
    std::lock_guard lock(mutex_);
    return loaded_folders_;
  }

  absl::StatusOr<std::unique_ptr<engine::Model>> Load(const engine::PackageManifest& manifest,
                                                      const std::string& folder,
                                                      const std::string& device) override {
    std::shared_ptr<FakeNetwork> loaded = network(manifest.name);
    std::lock_guard lock(mutex_);
    loaded_folders_.push_back(folder);
    if (const auto found = load_status_.find(manifest.name);
        found != load_status_.end() && !found->second.ok())
      return found->second;
    loaded->device = device;
    loaded->inputs = manifest.inputs;
    loaded->outputs = manifest.outputs;
    loaded->max_batch = manifest.max_batch;
    return std::make_unique<FakeModel>(loaded);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<FakeNetwork>> networks_;
  std::map<std::string, absl::Status> load_status_;
  std::vector<std::string> loaded_folders_;
};

}  // namespace deform::testing
