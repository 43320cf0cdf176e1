#include "select/fallbacks.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace deform::ops {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Keeps what torch would print.
class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  std::vector<std::string> texts;
};

Resolution to_jit(const std::string& why) {
  return {Backend::kJit, {{Backend::kCuda, why}}, true, {}};
}

int64_t calls_of(const std::string& op, const std::string& reason) {
  for (const Fallback& fallback : fallbacks()) {
    if (fallback.op == op && fallback.reason == reason) return fallback.calls;
  }
  return 0;
}

class FallbacksTest : public ::testing::Test {
 protected:
  Warnings warnings_;
  c10::WarningUtils::WarningHandlerGuard guard_{&warnings_};
};

TEST_F(FallbacksTest, EachKindIsCountedAndWarnedOfOnce) {
  record_fallback(Op::kMsda, to_jit("disabled"));
  record_fallback(Op::kMsda, to_jit("disabled"));
  EXPECT_THAT(
      warnings_.texts,
      ElementsAre(HasSubstr("BackendFallbackWarning: msda runs on jit, not on cuda: disabled")));
  record_fallback(Op::kConv, to_jit("disabled"));
  record_fallback(Op::kMsda, to_jit("compiled for SM 8.0"));
  EXPECT_THAT(warnings_.texts, SizeIs(3));
  EXPECT_EQ(calls_of("msda", "disabled"), 2);
  EXPECT_EQ(calls_of("conv", "disabled"), 1);
  EXPECT_EQ(calls_of("msda", "compiled for SM 8.0"), 1);
}

TEST_F(FallbacksTest, CountThatWasHandedOutIsTheOneThatIsRead) {
  std::atomic<int64_t>& calls = record_fallback(Op::kAttn, to_jit("handed out"));
  for (int i = 0; i < 100; ++i) record_fallback(Op::kAttn, to_jit(std::to_string(i)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) ++calls;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(calls_of("attn", "handed out"), 4001);
}

TEST_F(FallbacksTest, WarningsCanBeSilenced) {
  setenv("DEFORM_FALLBACK_WARNINGS", "0", 1);
  record_fallback(Op::kMsda, to_jit("silently"));
  unsetenv("DEFORM_FALLBACK_WARNINGS");
  EXPECT_THAT(warnings_.texts, IsEmpty());
  EXPECT_EQ(calls_of("msda", "silently"), 1);
}

}  // namespace
}  // namespace deform::ops
