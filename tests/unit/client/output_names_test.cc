#include "results/output_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using testing::ElementsAre;

TEST(NameOutputs, TakesTheStem) {
  EXPECT_THAT(NameOutputs({"photos/street.jpg", "b.tar.png"}), ElementsAre("street", "b.tar"));
}

TEST(NameOutputs, NumbersFilesThatShareAStem) {
  EXPECT_THAT(NameOutputs({"x/a.jpg", "y/a.jpg", "y/a.png"}), ElementsAre("a", "a-2", "a-3"));
}

TEST(NameOutputs, LeavesNamesOfOthersAlone) {
  EXPECT_THAT(NameOutputs({"x/a.jpg", "y/a.jpg", "a-2.jpg"}), ElementsAre("a", "a-3", "a-2"));
}

TEST(IsResultFileName, KnowsWhatTheClientWrites) {
  EXPECT_TRUE(IsResultFileName(OverlayFileName("a")));
  EXPECT_TRUE(IsResultFileName(IdMapFileName("a")));
  EXPECT_TRUE(IsResultFileName(MaskFileName("a", 12)));
  EXPECT_FALSE(IsResultFileName("a.png"));
  EXPECT_FALSE(IsResultFileName("a.mask-x.png"));
  EXPECT_FALSE(IsResultFileName("a.mask-.png"));
  EXPECT_FALSE(IsResultFileName("overlay.png"));
}

}  // namespace
}  // namespace deform::client
