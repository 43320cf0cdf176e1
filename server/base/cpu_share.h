#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace deform::base {

// The number of CPUs that this process may keep busy: the smaller of its affinity mask and its
// control group's CPU quota (cgroup v1 or v2, its ancestors' included) rounded up. At least 1.
int CpuShare();

// The parts of CpuShare, for tests.

// CPUs allowed by the text of cpu.max ("max 100000", "150000 100000"); nullopt: no limit, or not
// such a text.
std::optional<double> ParseCpuMax(std::string_view text);

// CPUs allowed by the texts of cpu.cfs_quota_us ("-1": no limit) and cpu.cfs_period_us.
std::optional<double> ParseCfsQuota(std::string_view quota_us, std::string_view period_us);

// The smallest quota that binds a process whose /proc/self/cgroup reads `membership`, looked up
// under `cgroup_root` ("/sys/fs/cgroup"); nullopt: none does. Where the group's own folder can't be
// seen, as in a container without a cgroup namespace, the root's quota counts.
std::optional<double> CgroupCpuQuota(const std::string& cgroup_root, std::string_view membership);

}  // namespace deform::base
