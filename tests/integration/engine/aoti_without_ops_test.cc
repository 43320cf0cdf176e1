#include "base/error.h"
#include "gmock/gmock.h"
#include "toy_package.h"

namespace deform::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ToyPackageTest, ANetworkWhoseOpLibraryIsNotOpenIsRefusedByTheNameOfTheOperator) {
  auto loader = MakeAotiLoader({.op_library = ""});
  ASSERT_TRUE(loader.ok());
  const absl::Status status = (*loader)->Load(Manifest(), package(), "cpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::GetErrorDetails(status)->reason, "NO_BACKEND");
  EXPECT_EQ(status.message(),
            "no artifact runs on cpu: \"toy.pt2\" calls toy::scale, which no open op library has");
  EXPECT_EQ(FoldersLeft(), 0);
}

TEST_F(ToyPackageTest, AnOperatorThatTheManifestHidesIsRefusedByTorchAndLeavesNothing) {
  auto loader = MakeAotiLoader({.op_library = ""});
  ASSERT_TRUE(loader.ok());
  PackageManifest manifest = Manifest();
  manifest.artifacts[0].ops.clear();
  const absl::Status status = (*loader)->Load(manifest, package(), "cpu").status();
  EXPECT_EQ(status.message(),
            "no artifact runs on cpu: \"toy.pt2\" can't be opened (the log says why)");
  EXPECT_EQ(FoldersLeft(), 0);
}

TEST_F(ToyPackageTest, AnOpLibraryThatIsNoLibraryIsRefusedWithoutItsPath) {
  const std::string path = (temporary_.path() / "libops.so").string();
  std::ofstream(path) << "text";
  for (const std::string& library : {path, path + ".missing"}) {
    const absl::Status status = MakeAotiLoader({.op_library = library}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("/")));
  }
}

}  // namespace
}  // namespace deform::engine
