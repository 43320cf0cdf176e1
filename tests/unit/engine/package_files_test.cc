#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "engine/package_manifest.h"
#include "engine/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/fake_package.h"
#include "support/temporary_folder.h"

namespace deform::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// FIPS 180-4's examples, and the sum of nothing.
TEST(Sha256Test, KnownSums) {
  EXPECT_EQ(Sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256Test, AFileOfManyPiecesHasTheSumOfItsBytes) {
  testing::TemporaryFolder folder;
  const std::string million(1000000, 'a');  // FIPS 180-4's third example, repeated below
  std::ofstream(folder.path() / "million") << million;
  EXPECT_EQ(*Sha256OfFile(folder.path() / "million"),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  std::ofstream(folder.path() / "more") << million << million << million;
  EXPECT_EQ(*Sha256OfFile(folder.path() / "more"), Sha256(million + million + million));
  EXPECT_EQ(Sha256OfFile(folder.path() / "none").status().code(), absl::StatusCode::kNotFound);
}

class PackageFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::WriteFakePackage(repository_.path(), "1");
    auto manifest = ParsePackageManifest(testing::FakeManifest().dump());
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    manifest_ = *manifest;
  }

  std::filesystem::path artifact() const { return folder_ / "model.cpu.float32.pt2"; }

  // Verifies; a refusal must name the file without its folder.
  std::string Refusal() {
    const absl::Status status = VerifyPackageFiles(manifest_, folder_);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(base::GetErrorDetails(status)->reason, "PACKAGE_DAMAGED");
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("\"model.cpu.float32.pt2\""));
    EXPECT_THAT(message, Not(HasSubstr(repository_.path().string())));
    return message;
  }

  testing::TemporaryFolder repository_;
  std::filesystem::path folder_;
  PackageManifest manifest_;
};

TEST_F(PackageFilesTest, WhatTheManifestSumsUpPasses) {
  EXPECT_TRUE(VerifyPackageFiles(manifest_, folder_).ok());
}

TEST_F(PackageFilesTest, AFileReachedThroughALinkPasses) {
  std::filesystem::rename(artifact(), folder_ / "..data");
  std::filesystem::create_symlink("..data", artifact());
  EXPECT_TRUE(VerifyPackageFiles(manifest_, folder_).ok());
}

TEST_F(PackageFilesTest, AMissingFileIsRefused) {
  std::filesystem::remove(artifact());
  EXPECT_THAT(Refusal(), HasSubstr("is missing"));
}

TEST_F(PackageFilesTest, AFolderInPlaceOfAFileIsRefused) {
  std::filesystem::remove(artifact());
  std::filesystem::create_directory(artifact());
  EXPECT_THAT(Refusal(), HasSubstr("is missing"));
}

TEST_F(PackageFilesTest, HalfAFileIsRefusedByItsSize) {
  std::filesystem::resize_file(artifact(), 6);
  EXPECT_THAT(Refusal(), HasSubstr("has 6 bytes, the manifest says 13"));
}

TEST_F(PackageFilesTest, OneChangedByteIsRefusedByItsSum) {
  std::ofstream(artifact()) << "fake networK\n";
  EXPECT_THAT(Refusal(), HasSubstr("SHA-256"));
}

}  // namespace
}  // namespace deform::engine
