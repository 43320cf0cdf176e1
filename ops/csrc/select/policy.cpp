#include "select/policy.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>

namespace deform::ops {
namespace {

constexpr std::array<const char*, kOps> kOpNames = {"msda", "attn", "conv"};
constexpr std::array<const char*, kBackends> kBackendNames = {"cuda", "jit", "cpu", "eager"};

// The order of preference on each kind of device. A CUDA tensor never falls to `eager`, which would
// be slower by tens without a word.
struct Preference {
  std::optional<c10::DeviceType> device;  // nothing: any other
  std::vector<Backend> candidates;
};

const std::vector<Preference>& preferences() {
  static const std::vector<Preference> table = {
      {c10::DeviceType::CUDA, {Backend::kCuda, Backend::kJit}},
      {c10::DeviceType::CPU, {Backend::kCpu}},
      {std::nullopt, {Backend::kEager}},
  };
  return table;
}

// The least compute capability of each GPU backend: bfloat16 arithmetic starts at 8.0, and NVRTC of
// CUDA 13 compiles for 7.5 and later.
constexpr int kLeastSm[kBackends] = {80, 75, 0, 0};
// Half-precision atomic adds of the hardware, bfloat16 among them.
constexpr int kNativeHalfAtomicsSm = 90;

std::string sm_name(int sm) {
  return "SM " + std::to_string(sm / 10) + "." + std::to_string(sm % 10);
}

bool is_half(c10::ScalarType type) {
  return type == c10::ScalarType::Half || type == c10::ScalarType::BFloat16;
}

bool runs_on(const KernelTarget& target, int sm) {
  if (target.exact) return target.sm == sm;
  if (target.ptx) return target.sm <= sm;
  return target.sm / 10 == sm / 10 && target.sm <= sm;
}

// The compiled kernels that the driver would take for `sm`: machine code before PTX, then the
// newest.
const KernelTarget* best_target(const std::vector<KernelTarget>& targets, int sm) {
  const KernelTarget* best = nullptr;
  for (const KernelTarget& target : targets) {
    if (!runs_on(target, sm)) continue;
    const bool better = best == nullptr || (best->ptx && !target.ptx) ||
                        (best->ptx == target.ptx && best->sm < target.sm);
    if (better) best = &target;
  }
  return best;
}

std::string names_of(const std::vector<KernelTarget>& targets) {
  std::string names;
  for (const KernelTarget& target : targets) {
    names += (names.empty() ? "" : ", ") + sm_name(target.sm) + (target.exact ? " alone" : "") +
             (target.ptx ? " and later" : "");
  }
  return names;
}

// Why `backend` can't take the call; empty where it can.
std::string rejection(Backend backend, const Call& call, const Capabilities& capabilities) {
  if (capabilities.disabled[static_cast<size_t>(backend)]) return "disabled";
  const int least = kLeastSm[static_cast<size_t>(backend)];
  if (call.device == c10::DeviceType::CUDA && call.sm < least) {
    return "needs " + sm_name(least) + " or later, but the GPU has " + sm_name(call.sm);
  }
  // Launchers of run-time kernels are compiled with those that run ahead.
  const bool launches = backend == Backend::kCuda || backend == Backend::kJit;
  if (launches && capabilities.left_out[static_cast<size_t>(call.op)]) {
    return std::string("this build leaves out the CUDA kernels of ") + name_of(call.op) +
           " (DEFORM_EXTENSIONS)";
  }
  if (backend == Backend::kCuda) {
    if (capabilities.cuda_targets.empty()) {
      return "this build of the operator library has no CUDA kernels; build it with a CUDA toolkit";
    }
    if (best_target(capabilities.cuda_targets, call.sm) == nullptr) {
      return "compiled for " + names_of(capabilities.cuda_targets) + ", but the GPU has " +
             sm_name(call.sm);
    }
  }
  if (backend == Backend::kJit) return capabilities.jit_missing;
  return "";
}

const std::vector<Backend>& candidates_on(c10::DeviceType device) {
  for (const Preference& preference : preferences()) {
    if (!preference.device || *preference.device == device) return preference.candidates;
  }
  return preferences().back().candidates;
}

template <class Enum, size_t count>
std::optional<Enum> find(const std::array<const char*, count>& names, const std::string& name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

const char* name_of(Op op) { return kOpNames[static_cast<size_t>(op)]; }
const char* name_of(Backend backend) { return kBackendNames[static_cast<size_t>(backend)]; }
std::optional<Op> op_named(const std::string& name) { return find<Op>(kOpNames, name); }
std::optional<Backend> backend_named(const std::string& name) {
  return find<Backend>(kBackendNames, name);
}

KernelTarget KernelTarget::parse(const std::string& text) {
  KernelTarget target{0, false, false};
  size_t next = 0;
  while (next < text.size() && std::isdigit(static_cast<unsigned char>(text[next]))) {
    target.sm = target.sm * 10 + (text[next++] - '0');
  }
  if (next > 0 && next < text.size() && text[next] == 'a') {
    target.exact = true;
    ++next;
  }
  const std::string kind = text.substr(next);
  target.ptx = kind == "-virtual";
  TORCH_CHECK(next > 0 && target.sm >= 10 && (target.ptx || kind == "-real"),
              "not a CUDA architecture such as 90a-real or 100-virtual: ", text);
  return target;
}

Resolution resolve(const Call& call, const Capabilities& capabilities) {
  Resolution resolution{std::nullopt, {}, true, {}};
  for (const Backend backend : candidates_on(call.device)) {
    std::string reason = rejection(backend, call, capabilities);
    if (reason.empty()) {
      resolution.backend = backend;
      break;
    }
    resolution.rejected.push_back({backend, std::move(reason)});
  }
  if (resolution.backend == Backend::kCuda) {
    const KernelTarget& target = *best_target(capabilities.cuda_targets, call.sm);
    resolution.notes.push_back(target.ptx
                                   ? "PTX of " + sm_name(target.sm) + ", compiled by the driver"
                                   : "machine code of " + sm_name(target.sm));
  }
  if (call.device == c10::DeviceType::CUDA && call.training && is_half(call.dtype)) {
    resolution.float32_accumulation = !sums_in_own_type(call.sm, call.dtype, /*fp32acc=*/false);
    if (resolution.float32_accumulation) {
      resolution.notes.push_back(sm_name(call.sm) +
                                 " adds no bfloat16 atomically: value gradients " +
                                 "accumulate in float32 whatever fp32acc says");
    }
  }
  return resolution;
}

bool sums_in_own_type(int sm, c10::ScalarType dtype, bool fp32acc) {
  return !is_half(dtype) || (!fp32acc && sm >= kNativeHalfAtomicsSm);
}

std::string describe_failure(const Call& call, const Resolution& resolution) {
  std::string text = std::string(name_of(call.op)) + ": no backend can run a call on " +
                     c10::DeviceTypeName(call.device, /*lower_case=*/true) + ":";
  for (const Rejection& rejected : resolution.rejected) {
    text += std::string("\n  ") + name_of(rejected.backend) + ": " + rejected.reason;
  }
  return text;
}

}  // namespace deform::ops
