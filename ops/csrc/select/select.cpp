#include "select/select.h"

#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "jit/jit_kernels.h"
#include "select/fallbacks.h"
#ifdef DEFORM_WITH_CUDA
#include "common/device_cuda.h"
#endif

namespace deform::ops {
namespace {

std::vector<KernelTarget> compiled_targets() {
  std::vector<KernelTarget> targets;
#ifdef DEFORM_WITH_CUDA
  std::istringstream list(DEFORM_CUDA_ARCHITECTURES);
  for (std::string text; std::getline(list, text, ',');) {
    targets.push_back(KernelTarget::parse(text));
  }
#endif
  return targets;
}

#ifdef DEFORM_WITH_CUDA
constexpr std::array<bool, kOps> kLeftOut = {
#ifdef DEFORM_CUDA_MSDA
    false,
#else
    true,
#endif
#ifdef DEFORM_CUDA_ATTN
    false,
#else
    true,
#endif
#ifdef DEFORM_CUDA_CONV
    false,
#else
    true,
#endif
};
#endif

// Which backends enable_backend has taken away, and how often that changed.
struct Disabled {
  std::array<std::atomic<bool>, kBackends> backend{};
  std::atomic<uint32_t> changes{0};
};

Disabled& disabled() {
  static Disabled flags;
  return flags;
}

// Choices, remembered by each thread: a call costs one look instead of a resolution. Whatever the
// policy comes to look at has to become part of the key.
struct Remembered {
  uint64_t key = 0;
  uint32_t changes = 0;
  Backend backend = Backend::kCpu;
  std::atomic<int64_t>* fallbacks =
      nullptr;  // the count of calls like this; null: the first choice
};

uint64_t key_of(Op op, const at::Tensor& value, bool training) {
  const c10::Device device = value.device();
  return uint64_t{1} << 63 | static_cast<uint64_t>(op) << 40 |
         static_cast<uint64_t>(value.scalar_type()) << 32 |
         static_cast<uint64_t>(device.type()) << 24 |
         static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 8 |
         static_cast<uint64_t>(training);
}

int sm_of(c10::Device device) {
#ifdef DEFORM_WITH_CUDA
  if (device.is_cuda()) return kernels::gpu_at(device.has_index() ? device.index() : 0).capability;
#endif
  return 0;
}

Backend backend_or_throw(const std::string& name) {
  const auto backend = backend_named(name);
  TORCH_CHECK(backend, "backend must be cuda, jit, cpu or eager, but is ", name);
  return *backend;
}

void enable_backend(const std::string& name, bool enabled) {
  disabled().backend[static_cast<size_t>(backend_or_throw(name))] = !enabled;
  ++disabled().changes;
}

std::tuple<std::string, std::vector<std::string>, std::vector<std::string>, bool,
           std::vector<std::string>>
resolve_by_name(const std::string& op_name, c10::Device device, c10::ScalarType dtype,
                int64_t channels, int64_t levels, int64_t points, bool training,
                std::optional<int64_t> sm) {
  const auto op = op_named(op_name);
  TORCH_CHECK(op, "op must be msda, attn or conv, but is ", op_name);
  const Call call{*op,    device.type(), sm ? static_cast<int>(*sm) : sm_of(device),
                  dtype,  channels,      levels,
                  points, training};
  const Resolution resolution = resolve(call, process_capabilities());
  std::vector<std::string> rejected, reasons;
  for (const Rejection& rejection : resolution.rejected) {
    rejected.emplace_back(name_of(rejection.backend));
    reasons.push_back(rejection.reason);
  }
  return {resolution.backend ? name_of(*resolution.backend) : "", rejected, reasons,
          resolution.float32_accumulation, resolution.notes};
}

std::tuple<std::vector<std::string>, std::vector<std::string>, std::vector<std::string>,
           std::vector<std::string>, std::vector<int64_t>>
fallback_counts() {
  std::vector<std::string> ops, from, to, reasons;
  std::vector<int64_t> calls;
  for (const Fallback& fallback : fallbacks()) {
    ops.push_back(fallback.op);
    from.push_back(fallback.from);
    to.push_back(fallback.to);
    reasons.push_back(fallback.reason);
    calls.push_back(fallback.calls);
  }
  return {ops, from, to, reasons, calls};
}

}  // namespace

Capabilities process_capabilities() {
  static const std::vector<KernelTarget> targets = compiled_targets();
  Capabilities capabilities{targets, jit_missing(), {}};
  for (size_t i = 0; i < kBackends; ++i) capabilities.disabled[i] = disabled().backend[i];
#ifdef DEFORM_WITH_CUDA
  capabilities.left_out = kLeftOut;
#endif
  return capabilities;
}

Backend select_backend(Op op, const at::Tensor& value, int64_t channels, int64_t levels,
                       int64_t points, bool training) {
  static thread_local std::array<Remembered, 16> memory;
  const uint64_t key = key_of(op, value, training);
  const uint32_t changes = disabled().changes;
  Remembered& remembered = memory[(key * 0x9e3779b97f4a7c15u) >> 60];
  if (remembered.key == key && remembered.changes == changes) {
    if (remembered.fallbacks != nullptr) ++*remembered.fallbacks;
    return remembered.backend;
  }

  const Call call{op,
                  value.device().type(),
                  sm_of(value.device()),
                  value.scalar_type(),
                  channels,
                  levels,
                  points,
                  training};
  const Resolution resolution = resolve(call, process_capabilities());
  TORCH_CHECK_NOT_IMPLEMENTED(resolution.backend,
                              "NoBackendError: ", describe_failure(call, resolution));
  std::atomic<int64_t>* const fallbacks =
      resolution.rejected.empty() ? nullptr : &record_fallback(op, resolution);
  remembered = {key, changes, *resolution.backend, fallbacks};
  return *resolution.backend;
}

bool sums_in_own_type(const at::Tensor& value, bool fp32acc) {
  return sums_in_own_type(sm_of(value.device()), value.scalar_type(), fp32acc);
}

TORCH_LIBRARY_FRAGMENT(deform, library) {
  library.def(
      "resolve(str op, Device device, ScalarType dtype, int channels, int levels, int points, "
      "bool training, int? sm=None) -> (str backend, str[] rejected, str[] reasons, bool fp32acc, "
      "str[] notes)",
      resolve_by_name);
  library.def("enable_backend(str backend, bool enabled) -> ()", enable_backend);
  library.def("fallback_counts() -> (str[] ops, str[] from_, str[] to, str[] reasons, int[] calls)",
              fallback_counts);
}

}  // namespace deform::ops
