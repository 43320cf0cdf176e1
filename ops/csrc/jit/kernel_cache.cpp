#include "jit/kernel_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "jit/sha256.h"

namespace deform::ops {
namespace {

constexpr std::string_view kMagic = "deform-kernel-1\n";
constexpr size_t kDigestSize = 64;

class FileDescriptor {
 public:
  FileDescriptor(const std::filesystem::path& path, int flags)
      : descriptor_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  // Waits for everybody else; the lock goes with the descriptor.
  bool lock() const {
    while (flock(descriptor_, LOCK_EX) != 0) {
      if (errno != EINTR) return false;
    }
    return true;
  }

  bool write_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  }

 private:
  const int descriptor_;
};

std::filesystem::path entry_path(const std::filesystem::path& folder, const std::string& key) {
  return folder / (key + ".kernel");
}

int64_t nanoseconds(const timespec& time) {
  return static_cast<int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// The kernel dates files by its coarse clock, which lags behind the others.
int64_t file_clock_now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return nanoseconds(now);
}

}  // namespace

KernelCache::KernelCache(std::filesystem::path folder, Warn warn)
    : folder_(std::move(folder)), warn_(std::move(warn)), constructed_(file_clock_now()) {}

std::optional<std::string> KernelCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(entry_path(folder_, key), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t header = kMagic.size() + kDigestSize;
  if (text.size() < header || text.compare(0, kMagic.size(), kMagic) != 0) return std::nullopt;
  std::string bytes = text.substr(header);
  if (text.compare(kMagic.size(), kDigestSize, sha256_hex(bytes)) != 0) return std::nullopt;
  return bytes;
}

std::string KernelCache::find_or_make(const std::string& key, const Make& make, bool rebuild) {
  const auto usable = [&]() -> std::optional<std::string> {
    if (rebuild) {
      struct stat entry;
      if (stat(entry_path(folder_, key).c_str(), &entry) != 0 ||
          nanoseconds(entry.st_mtim) < constructed_) {
        return std::nullopt;
      }
    }
    return find(key);
  };
  if (folder_.empty()) return make();
  if (auto bytes = usable()) return *std::move(bytes);

  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const FileDescriptor lock(folder_ / (key + ".lock"), O_RDWR | O_CREAT);
  if (!lock.is_open() || !lock.lock()) {
    warn_once("the kernel cache " + folder_.string() + " can't be written: " +
              std::strerror(errno) + "; kernels are compiled again by each process");
    return make();
  }
  // Somebody else may have made it in the meantime.
  if (auto bytes = usable()) return *std::move(bytes);
  std::string bytes = make();
  if (!keep(key, bytes)) {
    warn_once("a kernel can't be kept in the cache " + folder_.string() + ": " +
              std::strerror(errno) + "; it is compiled again by each process");
  }
  return bytes;
}

// REQUIRES: the lock of `key`. Leaves errno on failure, and no file.
bool KernelCache::keep(const std::string& key, const std::string& bytes) const {
  // One name for a key: what a killed process left is overwritten.
  const std::filesystem::path partial = folder_ / (key + ".partial");
  bool written;
  {
    const FileDescriptor file(partial, O_WRONLY | O_CREAT | O_TRUNC);
    written = file.is_open() && file.write_all(kMagic) && file.write_all(sha256_hex(bytes)) &&
              file.write_all(bytes);
  }
  if (written && rename(partial.c_str(), entry_path(folder_, key).c_str()) == 0) return true;
  const int failure = errno;
  unlink(partial.c_str());
  errno = failure;
  return false;
}

void KernelCache::warn_once(const std::string& text) { std::call_once(warned_, warn_, text); }

std::filesystem::path default_cache_folder() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (auto named = variable("DEFORM_OPS_CACHE_DIR"); !named.empty()) return named;
  if (auto caches = variable("XDG_CACHE_HOME"); !caches.empty()) return caches / "deform_ops";
  if (auto home = variable("HOME"); !home.empty()) return home / ".cache" / "deform_ops";
  return {};
}

}  // namespace deform::ops
