#include "lifecycle/repository_scan.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/temporary_folder.h"

namespace deform::lifecycle {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class RepositoryScanTest : public ::testing::Test {
 protected:
  void AddFolder(const std::string& name) {
    std::filesystem::create_directories(repository_.path() / name);
  }

  testing::TemporaryFolder repository_;
};

TEST_F(RepositoryScanTest, VersionsCompareAsNumbers) {
  AddFolder("a/9");
  AddFolder("a/10");
  AddFolder("b/2");
  EXPECT_THAT(*FindNewestVersions(repository_.path()), ElementsAre(Pair("a", 10), Pair("b", 2)));
}

TEST_F(RepositoryScanTest, FoldersThatAreNoVersionsAreIgnored) {
  for (const char* name : {"a/1", "a/latest", "a/2x", "a/-3", "a/0", "a/007", "a/.4", "a/1.5",
                           "a/99999999999999999999"})
    AddFolder(name);
  std::ofstream(repository_.path() / "a/8") << "a file";
  EXPECT_THAT(*FindNewestVersions(repository_.path()), ElementsAre(Pair("a", 1)));
}

TEST_F(RepositoryScanTest, FilesHiddenFoldersAndModelsWithoutVersionsAreIgnored) {
  AddFolder("a/1");
  AddFolder("..data/1");
  AddFolder("lost+found");
  std::ofstream(repository_.path() / "README") << "a file";
  EXPECT_THAT(*FindNewestVersions(repository_.path()), ElementsAre(Pair("a", 1)));
}

TEST_F(RepositoryScanTest, AVersionReachedThroughALinkCounts) {
  AddFolder("elsewhere");
  AddFolder("a");
  std::filesystem::create_directory_symlink("../elsewhere", repository_.path() / "a/3");
  EXPECT_THAT(*FindNewestVersions(repository_.path()), ElementsAre(Pair("a", 3)));
}

TEST_F(RepositoryScanTest, NoModelOrNoRepositoryIsAnErrorWithoutAPath) {
  for (const auto& path : {repository_.path(), repository_.path() / "none"}) {
    const absl::Status status = FindNewestVersions(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(base::GetErrorDetails(status)->reason, "BAD_REPOSITORY");
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/")));
  }
}

}  // namespace
}  // namespace deform::lifecycle
