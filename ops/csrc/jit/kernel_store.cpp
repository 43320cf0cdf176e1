#include "jit/kernel_store.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "jit/sha256.h"

namespace deform::ops {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

CompilePolicy compile_policy(const std::string& text) {
  if (text.empty() || text == "1") return CompilePolicy::kMissing;
  if (text == "0") return CompilePolicy::kNever;
  if (text == "always") return CompilePolicy::kAlways;
  if (text == "rebuild") return CompilePolicy::kRebuild;
  TORCH_CHECK(false, "DEFORM_OPS_COMPILE must be 0, 1, always or rebuild, but is ", text);
}

bool is_url(const std::string& text) { return text.find("://") != std::string::npos; }

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The digest that SHA256SUMS gives for `file`; nothing where it doesn't list it.
std::optional<std::string> listed_digest(const std::string& sums, const std::string& file) {
  std::istringstream lines(sums);
  std::string digest, name;
  while (lines >> digest >> name) {
    if (name == file) return digest;
  }
  return std::nullopt;
}

// The kernel that an index has for `key`; nothing where it has none.
std::optional<std::string> find_in_index(const std::filesystem::path& folder,
                                         const std::string& key) {
  const auto sums = read_file(folder / "SHA256SUMS");
  TORCH_CHECK(sums, "KernelDownloadError: the kernel index ", folder.string(),
              " has no SHA256SUMS; unset DEFORM_OPS_INDEX to do without it");
  const std::string file = key + ".cubin";
  const auto digest = listed_digest(*sums, file);
  if (!digest) return std::nullopt;
  auto cubin = read_file(folder / file);
  TORCH_CHECK(cubin && sha256_hex(*cubin) == *digest, "KernelDownloadError: ", file,
              " of the kernel index ", folder.string(),
              cubin ? " isn't what its SHA256SUMS says" : " is missing",
              "; unset DEFORM_OPS_INDEX to do without it");
  return cubin;
}

}  // namespace

KernelSettings KernelSettings::from_environment() {
  KernelSettings settings;
  settings.cache_folder = default_cache_folder();
  if (const std::string index = variable("DEFORM_OPS_INDEX"); !is_url(index)) {
    settings.index_folder = index;
  }
  settings.compile = compile_policy(variable("DEFORM_OPS_COMPILE"));
  settings.optimization = variable("DEFORM_OPS_OPT_LEVEL");
  const std::string& level = settings.optimization;
  TORCH_CHECK(level.empty() || (level.size() == 1 && level[0] >= '0' && level[0] <= '3'),
              "DEFORM_OPS_OPT_LEVEL must be 0, 1, 2 or 3, but is ", level);
  return settings;
}

const char* name_of(KernelOrigin origin) {
  switch (origin) {
    case KernelOrigin::kCache:
      return "cache";
    case KernelOrigin::kIndex:
      return "index";
    default:
      return "compiled";
  }
}

KernelStore::KernelStore(KernelSettings settings, KernelCache::Warn warn)
    : settings_(std::move(settings)), cache_(settings_.cache_folder, std::move(warn)) {}

FoundKernel KernelStore::find(const KernelSource& source, int sm) {
  KernelSource wanted = source;
  if (!settings_.optimization.empty()) {
    wanted.options.push_back("--ptxas-options=-O" + settings_.optimization);
  }
  const std::string key = kernel_key(wanted, sm);
  const bool rebuild = settings_.compile == CompilePolicy::kRebuild;
  if (!rebuild) {
    if (auto cubin = cache_.find(key)) return {key, *std::move(cubin), KernelOrigin::kCache};
  }
  const bool index_wanted =
      settings_.compile == CompilePolicy::kMissing || settings_.compile == CompilePolicy::kNever;
  if (index_wanted && !settings_.index_folder.empty()) {
    if (auto cubin = find_in_index(settings_.index_folder, key)) {
      return {key, *std::move(cubin), KernelOrigin::kIndex};
    }
  }
  TORCH_CHECK(settings_.compile != CompilePolicy::kNever, "KernelNotProvidedError: ", wanted.name,
              " for SM ", sm / 10, ".", sm % 10, " is neither in the cache nor in an index, and ",
              "DEFORM_OPS_COMPILE=0 keeps it from being compiled");
  bool compiled = false;
  std::string cubin = cache_.find_or_make(
      key,
      [&] {
        compiled = true;
        return nvrtc_compile(wanted, sm);
      },
      rebuild);
  return {key, std::move(cubin), compiled ? KernelOrigin::kCompiled : KernelOrigin::kCache};
}

std::string KernelStore::missing() const {
  if (settings_.compile != CompilePolicy::kNever && nvrtc_missing().empty()) return "";
  if (!settings_.index_folder.empty()) return "";
  std::error_code error;
  if (!settings_.cache_folder.empty() &&
      std::filesystem::directory_iterator(settings_.cache_folder, error) !=
          std::filesystem::directory_iterator()) {
    return "";  // an earlier process may have compiled just what is wanted
  }
  if (settings_.compile == CompilePolicy::kNever) {
    return "DEFORM_OPS_COMPILE=0, and there is neither an index nor a cache of kernels";
  }
  return nvrtc_missing();
}

std::string kernel_key(const KernelSource& source, int sm) {
  // Each part with its length in front: no two requests give one text.
  std::string all;
  const auto add = [&](const std::string& part) {
    all += std::to_string(part.size());
    all += ':';
    all += part;
  };
  add(source.text);
  for (const auto& [name, text] : source.headers) {
    add(name);
    add(text);
  }
  add("");
  for (const std::string& option : source.options) add(option);
  const std::string architecture = "sm" + std::to_string(sm);
  add(architecture);
  return source.name + "-" + architecture + "-" + sha256_hex(all).substr(0, 32);
}

}  // namespace deform::ops
