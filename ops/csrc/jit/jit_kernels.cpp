#include "jit/jit_kernels.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "common/dtypes.h"
#include "jit/embedded_sources.h"
#ifdef DEFORM_WITH_CUDA
#include "common/device_cuda.h"
#include "common/load_kernel_cuda.h"
#endif

namespace deform::ops {
namespace {

KernelStore& store() {
  static KernelStore* const instance = new KernelStore(
      KernelSettings::from_environment(), [](const std::string& text) { TORCH_WARN(text); });
  return *instance;
}

KernelSource source_of(const kernels::KernelRequest& request) {
  // Headers declare launchers, which are host functions and not called.
  std::vector<std::string> options = {"-std=c++17", "-default-device"};
  for (const kernels::KernelConstant& constant : request.constants) {
    options.push_back(std::string("-D") + constant.macro + "=" + std::to_string(constant.value));
  }
  return {request.entry, std::string("#include \"") + request.file + "\"\n", embedded_sources(),
          std::move(options)};
}

// One kernel of the process. Whatever fails is tried again by the next who asks.
class Kernel {
 public:
  explicit Kernel(const kernels::KernelRequest& request) : request_(request) {}

  const FoundKernel& found(int sm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return found_locked(sm);
  }

  const void* loaded(int sm) {
    const std::lock_guard<std::mutex> lock(mutex_);
#ifdef DEFORM_WITH_CUDA
    if (loaded_ == nullptr) {
      const FoundKernel& found = found_locked(sm);
      const auto loaded = kernels::load_kernel(found.cubin, request_.entry);
      TORCH_CHECK(loaded.failure == nullptr, "KernelBuildError: ", found.key,
                  " can't be loaded: ", loaded.failure);
      loaded_ = loaded.kernel;
    }
#endif
    return loaded_;
  }

 private:
  const FoundKernel& found_locked(int sm) {
    if (!found_) found_ = store().find(source_of(request_), sm);
    return *found_;
  }

  const kernels::KernelRequest request_;
  std::mutex mutex_;
  std::optional<FoundKernel> found_;
  const void* loaded_ = nullptr;
};

// All kernels for one compute capability.
class Kernels : public kernels::RunTimeKernels {
 public:
  explicit Kernels(int sm) : sm_(sm) {}

  const void* find(const kernels::KernelRequest& request) override {
    return of(request).loaded(sm_);
  }

  const FoundKernel& found(const kernels::KernelRequest& request) { return of(request).found(sm_); }

 private:
  // A request's constants have the same macros in the same order whenever its entry is the same.
  using Name = std::pair<std::string, std::vector<int64_t>>;

  Kernel& of(const kernels::KernelRequest& request) {
    Name name{request.entry, {}};
    name.second.reserve(request.constants.size());
    for (const kernels::KernelConstant& constant : request.constants) {
      name.second.push_back(constant.value);
    }
    {
      const std::shared_lock<std::shared_mutex> lock(mutex_);
      if (const auto found = kernels_.find(name); found != kernels_.end()) return *found->second;
    }
    const std::lock_guard<std::shared_mutex> lock(mutex_);
    auto& kernel = kernels_[std::move(name)];
    if (!kernel) kernel = std::make_unique<Kernel>(request);
    return *kernel;
  }

  const int sm_;
  std::shared_mutex mutex_;
  std::map<Name, std::unique_ptr<Kernel>> kernels_;
};

Kernels& kernels_for(int sm) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, Kernels>;  // outlives whatever still calls at exit
  const std::lock_guard<std::mutex> lock(mutex);
  return all->try_emplace(sm, sm).first->second;
}

// The most shared memory of a block, from the CUDA programming guide's table of capabilities.
size_t shared_bytes_of(int sm) {
  const int kib = sm < 80 ? 64 : sm == 80 || sm == 87 ? 163 : sm < 90 || sm >= 120 ? 99 : 227;
  return static_cast<size_t>(kib) * 1024;
}

kernels::Gpu gpu_of(int64_t sm, int64_t multiprocessors) {
  TORCH_CHECK(sm >= 10 && sm < 1000, "sm must be a compute capability times 10, as in 90, but is ",
              sm);
  TORCH_CHECK(multiprocessors >= 1 && multiprocessors < 100000,
              "multiprocessors must be at least 1, but is ", multiprocessors);
  return {static_cast<int>(sm), static_cast<int>(multiprocessors),
          shared_bytes_of(static_cast<int>(sm))};
}

at::Tensor bytes_of(const std::string& text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

}  // namespace

std::string jit_missing() {
#ifdef DEFORM_WITH_CUDA
  return store().missing();
#else
  return "this build of the operator library launches no CUDA kernels; build it with a CUDA "
         "toolkit";
#endif
}

#ifdef DEFORM_WITH_CUDA
kernels::RunTimeKernels& jit_kernels(c10::Device device) {
  return kernels_for(kernels::gpu_at(device.index()).capability);
}
#endif

WantedKernels::WantedKernels(int64_t sm, int64_t multiprocessors)
    : gpu_(gpu_of(sm, multiprocessors)) {}

const void* WantedKernels::find(const kernels::KernelRequest& request) {
  found_.push_back(&kernels_for(gpu_.capability).found(request));
  return nullptr;
}

KernelList WantedKernels::list() const {
  std::vector<std::string> keys, origins;
  std::vector<at::Tensor> cubins;
  for (const FoundKernel* found : found_) {
    keys.push_back(found->key);
    origins.emplace_back(name_of(found->origin));
    cubins.push_back(bytes_of(found->cubin));
  }
  return {keys, origins, cubins};
}

void check_kernel_sizes(const char* op,
                        std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [name, size] : sizes) {
    TORCH_CHECK(size >= 1, op, ": ", name, " must be at least 1, but is ", size);
  }
}

void check_kernel_dtypes(const char* op,
                         std::initializer_list<std::pair<const char*, at::ScalarType>> dtypes) {
  for (const auto& [name, dtype] : dtypes) {
    TORCH_CHECK(is_supported(dtype), op, ": ", name, " must be ", kSupportedDtypes, ", but is ",
                dtype);
  }
}

}  // namespace deform::ops
