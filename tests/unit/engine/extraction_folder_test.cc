#include "engine/aoti/extraction_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/temporary_folder.h"

namespace deform::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ExtractionFolderTest : public ::testing::Test {
 protected:
  ExtractionFolderTest() { setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~ExtractionFolderTest() override { unsetenv("TMPDIR"); }

  testing::TemporaryFolder temporary_;
};

TEST_F(ExtractionFolderTest, LiesInTheTemporaryDirectoryForThisUserAlone) {
  const auto folder = ExtractionFolder::Make();
  ASSERT_TRUE(folder.ok());
  EXPECT_THAT(folder->path(), StartsWith(temporary_.path().string() + "/"));
  EXPECT_EQ(fs::status(folder->path()).permissions(), fs::perms::owner_all);
}

TEST_F(ExtractionFolderTest, GoesWithAllThatIsInIt) {
  {
    const auto folder = ExtractionFolder::Make();
    fs::create_directory(fs::path(folder->path()) / "a");
    std::ofstream(fs::path(folder->path()) / "a/b") << "text";
  }
  EXPECT_TRUE(fs::is_empty(temporary_.path()));
}

TEST_F(ExtractionFolderTest, StaysWithWhomItMovedTo) {
  auto folder = ExtractionFolder::Make();
  const std::string path = folder->path();
  {
    const ExtractionFolder moved = *std::move(folder);
    folder = absl::CancelledError();
    EXPECT_TRUE(fs::is_directory(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ExtractionFolderTest, ATemporaryDirectoryThatIsMissingIsAnErrorWithoutAPath) {
  setenv("TMPDIR", (temporary_.path() / "missing").c_str(), 1);
  const absl::Status status = ExtractionFolder::Make().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/")));
}

}  // namespace
}  // namespace deform::engine
