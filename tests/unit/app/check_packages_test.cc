#include "app/check_packages.h"

#include <gtest/gtest.h>

#include <sstream>

#include "integration/server/fake_repository.h"

namespace deform::app {
namespace {

TEST(CheckPackagesTest, SoundPackagesPass) {
  testing::FakeRepository repository;
  repository.AddSegmentationModel("shapes", 2);
  repository.AddDetectionModel("boxes");
  std::ostringstream out;
  EXPECT_TRUE(CheckPackages(repository.path(), out));
  EXPECT_EQ(out.str(), "boxes/1: ok\nshapes/2: ok\n");
}

TEST(CheckPackagesTest, ADamagedPackageIsNamedAndTheOthersAreStillChecked) {
  testing::FakeRepository repository;
  repository.AddSegmentationModel("a");
  repository.AddSegmentationModel("b");
  repository.Damage("a");
  std::ostringstream out;
  EXPECT_FALSE(CheckPackages(repository.path(), out));
  EXPECT_NE(out.str().find("a/1: "), std::string::npos);
  EXPECT_NE(out.str().find("model.pt2"), std::string::npos);
  EXPECT_NE(out.str().find("b/1: ok"), std::string::npos);
}

TEST(CheckPackagesTest, ARepositoryWithoutModelsIsAtFault) {
  testing::FakeRepository repository;
  std::ostringstream out;
  EXPECT_FALSE(CheckPackages(repository.path(), out));
  EXPECT_FALSE(CheckPackages(repository.path() + "/missing", out));
  EXPECT_NE(out.str(), "");
}

}  // namespace
}  // namespace deform::app
