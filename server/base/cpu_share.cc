#include "base/cpu_share.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

namespace deform::base {
namespace {

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::optional<int64_t> ParsePositive(std::string_view text) {
  text = Trim(text);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

std::optional<double> Smaller(std::optional<double> a, std::optional<double> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<double> QuotaOfFolder(const std::string& folder) {
  if (const auto text = ReadFile(folder + "/cpu.max")) return ParseCpuMax(*text);
  const auto quota_us = ReadFile(folder + "/cpu.cfs_quota_us");
  const auto period_us = ReadFile(folder + "/cpu.cfs_period_us");
  if (!quota_us || !period_us) return std::nullopt;
  return ParseCfsQuota(*quota_us, *period_us);
}

// The smallest quota of `group` ("/a/b") and its ancestors up to and including `hierarchy` itself.
std::optional<double> QuotaOfGroup(const std::string& hierarchy, std::string group) {
  std::optional<double> quota;
  while (!group.empty() && group != "/") {
    quota = Smaller(quota, QuotaOfFolder(hierarchy + group));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return Smaller(quota, QuotaOfFolder(hierarchy));
}

bool HasController(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const size_t comma = controllers.find(',');
    if (controllers.substr(0, comma) == wanted) return true;
    if (comma == std::string_view::npos) return false;
    controllers.remove_prefix(comma + 1);
  }
  return false;
}

int CpusOfAffinityMask() {
  // The kernel refuses a mask smaller than its own, so it grows until it fits.
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
    cpu_set_t* mask = CPU_ALLOC(cpus);
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const bool read = sched_getaffinity(0, size, mask) == 0;
    const int count = read ? CPU_COUNT_S(size, mask) : 0;
    CPU_FREE(mask);
    if (read) return count;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> ParseCpuMax(std::string_view text) {
  text = Trim(text);
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  return ParseCfsQuota(text.substr(0, space), text.substr(space));
}

std::optional<double> ParseCfsQuota(std::string_view quota_us, std::string_view period_us) {
  const auto quota = ParsePositive(quota_us);
  const auto period = ParsePositive(period_us);
  if (!quota || !period) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

std::optional<double> CgroupCpuQuota(const std::string& cgroup_root, std::string_view membership) {
  std::optional<double> quota;
  while (!membership.empty()) {
    const size_t line_end = std::min(membership.find('\n'), membership.size());
    const std::string_view line = membership.substr(0, line_end);
    membership.remove_prefix(std::min(line_end + 1, membership.size()));
    // HIERARCHY-ID:CONTROLLERS:GROUP; version 2 is the line "0::GROUP".
    const size_t first = line.find(':');
    const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) {
      quota = Smaller(quota, QuotaOfGroup(cgroup_root, group));
    } else if (HasController(controllers, "cpu")) {
      quota = Smaller(quota, QuotaOfGroup(cgroup_root + "/cpu", group));
    }
  }
  return quota;
}

int CpuShare() {
  int cpus = CpusOfAffinityMask();
  const auto membership = ReadFile("/proc/self/cgroup");
  const auto quota = CgroupCpuQuota("/sys/fs/cgroup", membership.value_or(""));
  if (quota) cpus = std::min(cpus, static_cast<int>(std::ceil(*quota)));
  return std::max(cpus, 1);
}

}  // namespace deform::base
