#include "base/cpu_share.h"

#include <sched.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "support/temporary_folder.h"

namespace deform::base {
namespace {

void Write(const std::filesystem::path& path, const char* text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(CpuShareTest, ReadsCpuMaxOfVersion2) {
  EXPECT_EQ(ParseCpuMax("150000 100000\n"), 1.5);
  EXPECT_EQ(ParseCpuMax("max 100000\n"), std::nullopt);
  EXPECT_EQ(ParseCpuMax(""), std::nullopt);
  EXPECT_EQ(ParseCpuMax("150000"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("1x 100000"), std::nullopt);
  EXPECT_EQ(ParseCpuMax("150000 0"), std::nullopt);
}

TEST(CpuShareTest, ReadsQuotaAndPeriodOfVersion1) {
  EXPECT_EQ(ParseCfsQuota("400000\n", "100000\n"), 4.0);
  EXPECT_EQ(ParseCfsQuota("-1\n", "100000\n"), std::nullopt);
  EXPECT_EQ(ParseCfsQuota("", ""), std::nullopt);
}

TEST(CpuShareTest, TheTightestQuotaOfTheGroupAndItsAncestorsCounts) {
  testing::TemporaryFolder root;
  Write(root.path() / "cpu.max", "800000 100000");
  Write(root.path() / "pods/cpu.max", "250000 100000");
  Write(root.path() / "pods/a/cpu.max", "max 100000");
  EXPECT_EQ(CgroupCpuQuota(root.path(), "0::/pods/a\n"), 2.5);
  EXPECT_EQ(CgroupCpuQuota(root.path(), "0::/other\n"), 8.0);
  EXPECT_EQ(CgroupCpuQuota(root.path(), "0::/\n"), 8.0);
}

TEST(CpuShareTest, Version1LooksUnderTheCpuController) {
  testing::TemporaryFolder root;
  Write(root.path() / "cpu/docker/x/cpu.cfs_quota_us", "50000");
  Write(root.path() / "cpu/docker/x/cpu.cfs_period_us", "100000");
  const char membership[] = "9:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n1:name=systemd:/\n";
  EXPECT_EQ(CgroupCpuQuota(root.path(), membership), 0.5);
  EXPECT_EQ(CgroupCpuQuota(root.path(), "9:cpuset:/docker/x\n"), std::nullopt);
}

TEST(CpuShareTest, NoGroupMeansNoQuota) {
  testing::TemporaryFolder root;
  EXPECT_EQ(CgroupCpuQuota(root.path(), ""), std::nullopt);
  EXPECT_EQ(CgroupCpuQuota(root.path(), "nonsense"), std::nullopt);
  EXPECT_EQ(CgroupCpuQuota(root.path(), "0::/a\n"), std::nullopt);
}

TEST(CpuShareTest, AnAffinityMaskOfOneCpuLeavesOne) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &before)) ++cpu;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(CpuShare(), 1);
  sched_setaffinity(0, sizeof(before), &before);
  EXPECT_GE(CpuShare(), 1);
}

}  // namespace
}  // namespace deform::base
