#include "engine/aoti/aoti_model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>

#include <atomic>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/logging.h"
#include "engine/aoti/aoti_loader.h"
#include "engine/aoti/elf_file.h"
#include "engine/aoti/extraction_folder.h"
#include "engine/aoti/torch_exceptions.h"

namespace deform::engine {
namespace {

using torch::inductor::AOTIModelContainerRunner;

std::atomic<int> intra_op_threads{0};  // 0: torch's own choice

c10::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return c10::kFloat;
    case DType::kFloat16:
      return c10::kHalf;
    case DType::kBFloat16:
      return c10::kBFloat16;
    case DType::kFloat64:
      return c10::kDouble;
    case DType::kInt64:
      return c10::kLong;
    case DType::kInt32:
      return c10::kInt;
    case DType::kUint8:
      return c10::kByte;
    case DType::kBool:
      return c10::kBool;
  }
  return c10::kFloat;
}

c10::Device CudaDevice(int index) {
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

absl::Status WrongOutput(const std::string& name, const std::string& description) {
  return absl::InternalError(absl::StrCat("output `", name, "` of the network ", description));
}

absl::Status CheckOutputs(const std::vector<TensorSpec>& specs, int64_t batch,
                          const std::vector<at::Tensor>& outputs) {
  if (outputs.size() != specs.size())
    return absl::InternalError(absl::StrCat("the network has ", outputs.size(),
                                            " outputs, the manifest says ", specs.size()));
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec& spec = specs[i];
    if (outputs[i].scalar_type() != ScalarTypeOf(spec.dtype))
      return WrongOutput(spec.name,
                         absl::StrCat("has another dtype than ", std::string(DTypeName(spec.dtype)),
                                      ", which the manifest says"));
    std::vector<int64_t> shape = spec.shape;
    for (int64_t& size : shape) size = size < 0 ? batch : size;
    if (outputs[i].sizes() != at::IntArrayRef(shape))
      return WrongOutput(spec.name,
                         absl::StrCat("has the shape [", absl::StrJoin(outputs[i].sizes(), ", "),
                                      "], the manifest says [", absl::StrJoin(shape, ", "), "]"));
  }
  return absl::OkStatus();
}

class AotiModel final : public Model {
 public:
  AotiModel(NetworkSpec spec, std::optional<ExtractionFolder> folder,
            std::unique_ptr<AOTIModelContainerRunner> runner)
      : spec_(std::move(spec)), folder_(std::move(folder)), runner_(std::move(runner)) {}

  const std::string& device() const override { return spec_.device; }
  const std::vector<TensorSpec>& inputs() const override { return spec_.inputs; }
  const std::vector<TensorSpec>& outputs() const override { return spec_.outputs; }
  int max_batch() const override { return spec_.max_batch; }

  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> inputs) override {
    DEFORM_RETURN_IF_ERROR(CheckInputs(spec_.inputs, spec_.max_batch, inputs));
    const int64_t batch = inputs.front().shape().front();
    std::vector<Tensor> answer;
    absl::Status checked;
    const absl::Status ran = CatchExceptions("run_failed", "running the network failed", [&] {
      const c10::InferenceMode inference_mode;
      const std::vector<at::Tensor> outputs = on_cuda() ? RunOnCuda(inputs) : RunOnCpu(inputs);
      checked = CheckOutputs(spec_.outputs, batch, outputs);
      if (checked.ok()) answer = ToHost(outputs);
    });
    DEFORM_RETURN_IF_ERROR(ran);
    DEFORM_RETURN_IF_ERROR(checked);
    return answer;
  }

 private:
  bool on_cuda() const { return spec_.device_index >= 0; }

  // Views of the inputs' memory, which the network reads and never writes.
  std::vector<at::Tensor> Views(absl::Span<const Tensor> inputs) const {
    std::vector<at::Tensor> views;
    for (const Tensor& input : inputs)
      views.push_back(at::from_blob(const_cast<void*>(input.data()), input.shape(),
                                    ScalarTypeOf(input.dtype())));
    return views;
  }

  std::vector<at::Tensor> RunOnCpu(absl::Span<const Tensor> inputs) {
    // The number of threads belongs to the thread that starts them: torch and OpenMP keep it in
    // thread-local state, which a thread that never ran a network has not been told of.
    const int threads = intra_op_threads.load(std::memory_order_relaxed);
    if (threads > 0 && at::get_num_threads() != threads) at::set_num_threads(threads);
    return runner_->run(Views(inputs));
  }

  std::vector<at::Tensor> RunOnCuda(absl::Span<const Tensor> inputs) {
    const c10::Device device = CudaDevice(spec_.device_index);
    const c10::DeviceGuard on_device(device);
    std::vector<at::Tensor> copies = Views(inputs);
    for (at::Tensor& tensor : copies) tensor = tensor.to(device);
    return runner_->run(copies);
  }

  // Outputs in host memory, row-major. Those that are already are handed on without a copy.
  std::vector<Tensor> ToHost(const std::vector<at::Tensor>& outputs) const {
    std::vector<Tensor> answer;
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto owner = std::make_shared<at::Tensor>(outputs[i].to(at::kCPU).contiguous());
      answer.push_back(
          Tensor::Wrap(spec_.outputs[i].dtype, owner->sizes().vec(), owner->data_ptr(), owner));
    }
    return answer;
  }

  const NetworkSpec spec_;
  const std::optional<ExtractionFolder> folder_;
  const std::unique_ptr<AOTIModelContainerRunner> runner_;
};

}  // namespace

void SetIntraOpThreads(int threads) { intra_op_threads.store(threads, std::memory_order_relaxed); }

absl::StatusOr<std::unique_ptr<Model>> MakeAotiModel(NetworkSpec spec, NetworkArchive& archive) {
  DEFORM_ASSIGN_OR_RETURN(ExtractionFolder folder, ExtractionFolder::Make());
  DEFORM_ASSIGN_OR_RETURN(const std::string library, archive.Extract(folder.path()));
  if (!IsWholeSharedLibrary(library))
    return absl::FailedPreconditionError("holds a damaged network");
  std::unique_ptr<AOTIModelContainerRunner> runner;
  const absl::Status opened =
      CatchExceptions("network_unopened", "can't be opened (the log says why)", [&] {
        std::optional<c10::DeviceGuard> on_device;
        if (spec.device_index >= 0) {
          on_device.emplace(CudaDevice(spec.device_index));
          // A float32 network answers in float32: torch's default lets cuDNN round to TF32.
          at::globalContext().setAllowTF32CuDNN(false);
        }
        const auto& makers = torch::inductor::getAOTIModelRunnerRegistry();
        const auto make = makers.at(spec.device_index >= 0 ? "cuda" : "cpu");
        runner = make(library, /*num_models=*/1, spec.device, folder.path(),
                      /*run_single_threaded=*/false);
      });
  DEFORM_RETURN_IF_ERROR(opened);
  // A GPU's kernels are read from the folder when first called. What runs on the CPU is mapped by
  // now: its folder goes at once, so that a process that is killed leaves none behind.
  std::optional<ExtractionFolder> kept;
  if (spec.device_index >= 0) kept.emplace(std::move(folder));
  return std::make_unique<AotiModel>(std::move(spec), std::move(kept), std::move(runner));
}

}  // namespace deform::engine
