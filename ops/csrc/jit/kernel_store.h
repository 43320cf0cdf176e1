// Where the kernels of the `jit` backend come from: the cache, an index of ready kernels, a
// compile.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "jit/kernel_cache.h"
#include "jit/nvrtc.h"

namespace deform::ops {

enum class CompilePolicy : int {
  kNever,    // DEFORM_OPS_COMPILE=0
  kMissing,  // 1, the default: what neither the cache nor the index has
  kAlways,   // always: the cache holds what this machine compiled; the index isn't looked at
  kRebuild,  // rebuild: as always, and each kernel once again in this process
};

struct KernelSettings {
  std::filesystem::path cache_folder;  // empty: none
  std::filesystem::path index_folder;  // of `SHA256SUMS` and the files it lists; empty: none
  CompilePolicy compile = CompilePolicy::kMissing;
  std::string optimization;  // "0" to "3"; empty: the compiler's own

  // DEFORM_OPS_CACHE_DIR, DEFORM_OPS_INDEX, DEFORM_OPS_COMPILE and DEFORM_OPS_OPT_LEVEL. Throws
  // c10::Error, which names the variable, on a value that it can't have. An index behind a URL is
  // Python's to fetch: it counts as none here.
  static KernelSettings from_environment();
};

enum class KernelOrigin : int { kCache, kIndex, kCompiled };
const char* name_of(KernelOrigin origin);

struct FoundKernel {
  std::string key;  // kernel_key's
  std::string cubin;
  KernelOrigin origin;
};

class KernelStore {
 public:
  explicit KernelStore(KernelSettings settings, KernelCache::Warn warn);

  // The machine code of `source` for compute capability `sm` / 10. Threads and processes that want
  // the same at the same time compile it once. Throws c10::Error, whose text starts with
  // KernelDownloadError (an index whose file isn't what its SHA256SUMS says), KernelBuildError (a
  // compile failed, or there is no compiler) or KernelNotProvidedError (nothing has it, and nothing
  // may be compiled).
  FoundKernel find(const KernelSource& source, int sm);

  // Why nothing can come from here; empty where something can.
  std::string missing() const;

 private:
  const KernelSettings settings_;
  KernelCache cache_;
};

// What a kernel is kept as: NAME-sm90-DIGEST, the digest of all that is compiled and how.
std::string kernel_key(const KernelSource& source, int sm);

}  // namespace deform::ops
