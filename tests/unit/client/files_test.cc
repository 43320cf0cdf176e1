#include "cli/files.h"

#include <algorithm>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "test_data.h"

namespace deform::client {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TEST(FindPictures, SearchesFoldersInOrderOfPath) {
  const TemporaryFolder folder;
  for (const char* name : {"b.PNG", "a.jpeg", "sub/c.webp", "notes.txt", ".hidden.png",
                           ".git/d.png", "a.overlay.png", "a.ids.png", "a.mask-1.png"}) {
    folder.Write(name, "x");
  }
  const auto found = FindPictures({folder.path()});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(folder.path() / "a.jpeg", folder.path() / "b.PNG",
                                  folder.path() / "sub/c.webp"));
}

TEST(FindPictures, TakesEachFileOnceAndInTheOrderGiven) {
  const TemporaryFolder folder;
  const fs::path a = folder.Write("a.png", "x");
  const fs::path b = folder.Write("b.png", "x");
  fs::create_symlink(b, folder.path() / "z.png");
  const auto found = FindPictures({b, folder.path(), a});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(b, a));
}

TEST(FindPictures, TakesFilesThatWereNamedWhateverTheyAre) {
  const TemporaryFolder folder;
  const fs::path odd = folder.Write("picture.dat", "x");
  const fs::path missing = folder.path() / "missing.png";
  const auto found = FindPictures({odd, missing});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre(odd, missing));
}

TEST(FindPictures, RefusesAFolderWithoutPictures) {
  const TemporaryFolder folder;
  folder.Write("notes.txt", "x");
  EXPECT_EQ(FindPictures({folder.path()}).status().code(), absl::StatusCode::kNotFound);
}

TEST(ReadFile, SaysWhyAFileCantBeRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(*ReadFile(folder.Write("a", std::string("\0\r\n", 3))), std::string("\0\r\n", 3));
  const auto missing = ReadFile(folder.path() / "missing");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(ReadFile(folder.path()).ok());
}

TEST(WriteFile, ReplacesAndLeavesNothingElse) {
  const TemporaryFolder folder;
  const fs::path path = folder.Write("a.json", "old and longer");
  ASSERT_TRUE(WriteFile(path, "new").ok());
  EXPECT_EQ(*ReadFile(path), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  EXPECT_FALSE(WriteFile(folder.path() / "no/such/folder.json", "x").ok());
}

}  // namespace
}  // namespace deform::client
