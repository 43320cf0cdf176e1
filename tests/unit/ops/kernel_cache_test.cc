// Kernels on disk, with real processes, locks and files.
#include "jit/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_folder.h"

namespace deform::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Runs `body` in a process of its own and returns how that ended, as waitpid has it.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

class KernelCacheTest : public ::testing::Test {
 protected:
  KernelCache cache() {
    return {folder_.path() / "kernels",
            [this](const std::string& text) { warned_.push_back(text); }};
  }
  std::filesystem::path entry() const { return folder_.path() / "kernels" / "key.kernel"; }

  // Counts itself in a file, so that other processes' runs are seen.
  KernelCache::Make make(const std::string& bytes = "bytes") {
    return [this, bytes] {
      std::ofstream(folder_.path() / "made", std::ios::app) << 'x';
      return bytes;
    };
  }
  size_t times_made() const { return read(folder_.path() / "made").size(); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path() / "kernels")) {
      names.push_back(file.path().filename());
    }
    return names;
  }

  testing::TemporaryFolder folder_;
  std::vector<std::string> warned_;
};

TEST_F(KernelCacheTest, WhatWasMadeOnceIsFoundByAllLaterProcesses) {
  EXPECT_EQ(cache().find("key"), std::nullopt);
  EXPECT_EQ(cache().find_or_make("key", make()), "bytes");
  EXPECT_EQ(cache().find_or_make("key", make("others")), "bytes");
  EXPECT_EQ(cache().find("key"), "bytes");
  EXPECT_EQ(cache().find("another"), std::nullopt);
  EXPECT_EQ(times_made(), 1u);
  EXPECT_THAT(warned_, IsEmpty());
}

TEST_F(KernelCacheTest, DamagedEntryCountsAsMissingAndIsMadeAgain) {
  cache().find_or_make("key", make());
  const std::string good = read(entry());
  std::string flipped = good;
  flipped.back() ^= 1;
  for (const std::string& bad : {std::string(), good.substr(0, 20), good.substr(0, good.size() - 1),
                                 good + "more", flipped}) {
    write(entry(), bad);
    EXPECT_EQ(cache().find("key"), std::nullopt);
    EXPECT_EQ(cache().find_or_make("key", make()), "bytes");
    EXPECT_EQ(read(entry()), good);
  }
}

TEST_F(KernelCacheTest, OfManyProcessesAtTheSameTimeOneMakes) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      close(gate[1]);
      char byte;
      while (::read(gate[0], &byte, 1) > 0) {
      }
      _exit(cache().find_or_make("key", make()) == "bytes" ? 0 : 1);
    }
    children.push_back(child);
  }
  close(gate[0]);
  close(gate[1]);  // all start
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(times_made(), 1u);
}

TEST_F(KernelCacheTest, OfManyThreadsAtTheSameTimeOneMakes) {
  KernelCache shared = cache();
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { right += shared.find_or_make("key", make()) == "bytes"; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 8);
  EXPECT_EQ(times_made(), 1u);
}

TEST_F(KernelCacheTest, KilledCompileLeavesNothingStaleAndNoLock) {
  const int status = in_child([&] {
    cache().find_or_make("key", []() -> std::string {
      raise(SIGKILL);
      return "";
    });
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(cache().find("key"), std::nullopt);
  EXPECT_EQ(cache().find_or_make("key", make()), "bytes");
  EXPECT_EQ(times_made(), 1u);
}

TEST_F(KernelCacheTest, WhatAKilledWriterLeftIsNotFoundAndGoesWithTheNextOne) {
  std::filesystem::create_directories(folder_.path() / "kernels");
  write(folder_.path() / "kernels" / "key.partial", "half of one, longer than what is to come");
  EXPECT_EQ(cache().find("key"), std::nullopt);
  EXPECT_EQ(cache().find_or_make("key", make()), "bytes");
  EXPECT_EQ(cache().find("key"), "bytes");
  EXPECT_THAT(files(), ::testing::UnorderedElementsAre("key.kernel", "key.lock"));
}

TEST_F(KernelCacheTest, WhatMakeThrowsPassesThroughAndNothingIsKept) {
  const auto fail = []() -> std::string { throw std::runtime_error("no compiler"); };
  EXPECT_THROW(cache().find_or_make("key", fail), std::runtime_error);
  EXPECT_EQ(cache().find("key"), std::nullopt);
  EXPECT_EQ(cache().find_or_make("key", make()), "bytes");
}

TEST_F(KernelCacheTest, FolderThatCannotBeWrittenGivesOneWarningAndTheKernels) {
  // Not even root creates folders there.
  KernelCache unwritable("/proc/deform_ops",
                         [this](const std::string& text) { warned_.push_back(text); });
  EXPECT_EQ(unwritable.find_or_make("key", make()), "bytes");
  EXPECT_EQ(unwritable.find_or_make("key", make()), "bytes");
  EXPECT_EQ(times_made(), 2u);
  EXPECT_THAT(warned_, ElementsAre(HasSubstr("/proc/deform_ops can't be written")));
}

TEST_F(KernelCacheTest, FullFolderGivesOneWarningAndTheKernelsAndKeepsNoHalf) {
  const int status = in_child([&] {
    KernelCache full = cache();
    std::filesystem::create_directories(folder_.path() / "kernels");
    // Files end after 40 bytes, as on a disk without more space.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{40, 40};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto plain = [] { return std::string("bytes"); };
    if (full.find_or_make("key", plain) != "bytes") return 1;
    if (full.find_or_make("key", plain) != "bytes") return 2;
    if (warned_.size() != 1 || warned_[0].find("can't be kept") == std::string::npos) return 3;
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_THAT(files(), ElementsAre("key.lock"));
}

TEST_F(KernelCacheTest, RebuildMakesOlderEntriesOnceMore) {
  cache().find_or_make("key", make("old"));
  std::filesystem::last_write_time(
      entry(), std::filesystem::last_write_time(entry()) - std::chrono::hours(1));
  KernelCache rebuilding = cache();
  EXPECT_EQ(rebuilding.find_or_make("key", make("new"), /*rebuild=*/true), "new");
  EXPECT_EQ(rebuilding.find_or_make("key", make("newer"), /*rebuild=*/true), "new");
  EXPECT_EQ(cache().find("key"), "new");
}

TEST_F(KernelCacheTest, WithoutAFolderNothingIsKept) {
  KernelCache none("", [this](const std::string& text) { warned_.push_back(text); });
  EXPECT_EQ(none.find_or_make("key", make()), "bytes");
  EXPECT_EQ(none.find("key"), std::nullopt);
  EXPECT_THAT(warned_, IsEmpty());
}

TEST(DefaultCacheFolder, IsTheFirstThatTheEnvironmentNames) {
  const auto with = [](const char* named, const char* caches, const char* home) {
    const auto set = [](const char* name, const char* value) {
      if (value == nullptr) {
        unsetenv(name);
      } else {
        setenv(name, value, 1);
      }
    };
    set("DEFORM_OPS_CACHE_DIR", named);
    set("XDG_CACHE_HOME", caches);
    set("HOME", home);
    return default_cache_folder();
  };
  EXPECT_EQ(with("/a", "/b", "/c"), "/a");
  EXPECT_EQ(with(nullptr, "/b", "/c"), "/b/deform_ops");
  EXPECT_EQ(with("", "", "/c"), "/c/.cache/deform_ops");
  EXPECT_EQ(with(nullptr, nullptr, nullptr), "");
}

}  // namespace
}  // namespace deform::ops
