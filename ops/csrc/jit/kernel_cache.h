// Compiled kernels on disk, shared by all processes of a machine that use the same folder.
//
// An entry is one file, KEY.kernel: its checksum, then its bytes. It appears whole (written aside,
// then renamed), so that a process that is killed leaves no half of one; a damaged entry counts as
// missing and is made again. KEY.lock is locked while an entry is made; the system unlocks it when
// its process ends, however it ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace deform::ops {

class KernelCache {
 public:
  using Make = std::function<std::string()>;
  using Warn = std::function<void(const std::string& text)>;

  // `folder` is created when something is first kept in it; empty: nothing is kept. `warn` gets
  // what a user should know of a folder that can't be used; it is called once at most.
  KernelCache(std::filesystem::path folder, Warn warn);

  // What is kept as `key`; nothing where it is missing or damaged. Keys are file names.
  std::optional<std::string> find(const std::string& key) const;

  // What is kept as `key`, or else what `make` returns, which is kept from then on. Of all threads
  // and processes that ask for a key at the same time one makes it and the others wait for it.
  // Where the folder can't be written, or is full, the result is returned all the same. What `make`
  // throws passes through, and nothing is kept. With `rebuild`, an entry that was there before this
  // cache was constructed is made again.
  std::string find_or_make(const std::string& key, const Make& make, bool rebuild = false);

  const std::filesystem::path& folder() const { return folder_; }

 private:
  bool keep(const std::string& key, const std::string& bytes) const;
  void warn_once(const std::string& text);

  const std::filesystem::path folder_;
  const Warn warn_;
  const int64_t constructed_;  // nanoseconds, on the clock that files are dated by
  std::once_flag warned_;
};

// DEFORM_OPS_CACHE_DIR, else deform_ops in XDG_CACHE_HOME or ~/.cache; empty where none is set.
std::filesystem::path default_cache_folder();

}  // namespace deform::ops
