// The public header against the library itself, loaded as a program of somebody else's loads it.
#include "deform_ops/resolve.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace deform {
namespace {

class ResolveTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen(DEFORM_OPS_LIBRARY, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  }
};

TEST_F(ResolveTest, NamesTheBackendOfACpuCall) {
  const Resolution resolution = resolve({.op = "msda"});
  EXPECT_EQ(resolution.backend, "cpu");
  EXPECT_TRUE(resolution.rejected.empty());
  EXPECT_TRUE(resolution.float32_accumulation);
}

TEST_F(ResolveTest, SaysWhyEachCandidateIsRejectedForAGpuThatIsTooOld) {
  const Resolution resolution = resolve({.op = "conv", .device = c10::kCUDA, .sm = 60});
  EXPECT_EQ(resolution.backend, "");
  ASSERT_EQ(resolution.rejected.size(), 2u);
  EXPECT_EQ(resolution.rejected[0].first, "cuda");
  EXPECT_EQ(resolution.rejected[0].second, "needs SM 8.0 or later, but the GPU has SM 6.0");
  EXPECT_EQ(resolution.rejected[1].first, "jit");
}

TEST_F(ResolveTest, RefusesAnOperatorThatIsNotOne) {
  EXPECT_THROW(resolve({.op = "pool"}), c10::Error);
}

}  // namespace
}  // namespace deform
