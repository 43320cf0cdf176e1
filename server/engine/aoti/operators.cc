#include "engine/aoti/operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "base/logging.h"

namespace deform::engine {

absl::Status OpenOperatorLibrary(const std::string& path) {
  // Its operators register themselves while it is opened. Where torch refuses one, because another
  // library has registered the same, the process ends: exceptions don't pass the dynamic linker.
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return absl::OkStatus();
  base::Log(base::LogLevel::kError, "op_library_unopened", {{"error", std::string(dlerror())}});
  return absl::FailedPreconditionError("the op library can't be opened");
}

std::string WhyNotCallable(const std::string& op, const std::string& device) {
  const auto handle = c10::Dispatcher::singleton().findSchema({op, ""});
  if (!handle) return absl::StrCat("calls ", op, ", which no open op library has");
  const auto key = device == "cuda" ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU;
  if (!handle->hasComputedKernelForDispatchKey(key))
    return absl::StrCat("calls ", op, ", which the op library lacks for ", device);
  return "";
}

}  // namespace deform::engine
