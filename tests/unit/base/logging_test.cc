#include "base/logging.h"

#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace deform::base {
namespace {

using nlohmann::json;

// What Log writes to standard error, parsed line by line.
template <typename Function>
std::vector<json> Logged(Function function) {
  ::testing::internal::CaptureStderr();
  function();
  std::istringstream text(::testing::internal::GetCapturedStderr());
  std::vector<json> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
  return lines;
}

TEST(LoggingTest, ALineIsOneJsonObjectWithItsFields) {
  const auto lines = Logged([] {
    Log(LogLevel::kWarning, "queue_full",
        {{"model", std::string("shapes")},
         {"depth", int64_t{-3}},
         {"wait_ms", 2.5},
         {"retry", true}});
  });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["level"], "warning");
  EXPECT_EQ(lines[0]["event"], "queue_full");
  EXPECT_EQ(lines[0]["model"], "shapes");
  EXPECT_EQ(lines[0]["depth"], -3);
  EXPECT_EQ(lines[0]["wait_ms"], 2.5);
  EXPECT_EQ(lines[0]["retry"], true);
  const std::string time = lines[0]["time"];
  EXPECT_EQ(time.size(), std::string("2026-01-31T12:00:00.123456Z").size());
  EXPECT_EQ(time.back(), 'Z');
}

TEST(LoggingTest, AnyBytesOfAStringStayOneLineOfJson) {
  const std::string text("a\"b\\c\nd\te\x01\x7f\0é€😀", 21);
  const auto lines = Logged([&] { Log(LogLevel::kError, "event", {{"text", text}}); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["text"], text);
}

TEST(LoggingTest, InvalidUtf8BecomesReplacementCharacters) {
  const std::string replacement = "\xEF\xBF\xBD";
  const auto logged = [](std::string text) {
    return Logged([&] {
             Log(LogLevel::kInfo, "event", {{"text", text}});
           })[0]["text"]
        .get<std::string>();
  };
  EXPECT_EQ(logged("a\x80z"), "a" + replacement + "z");         // a stray continuation
  EXPECT_EQ(logged("\xC3"), replacement);                       // cut off
  EXPECT_EQ(logged("\xC0\xAF"), replacement + replacement);     // over-long
  EXPECT_EQ(logged("\xED\xA0\x80").find(replacement), 0u);      // a surrogate
  EXPECT_EQ(logged("\xF4\x90\x80\x80").find(replacement), 0u);  // above U+10FFFF
}

TEST(LoggingTest, NumbersThatJsonLacksBecomeNull) {
  const auto lines = Logged([] {
    Log(LogLevel::kInfo, "event",
        {{"nan", std::numeric_limits<double>::quiet_NaN()},
         {"infinity", std::numeric_limits<double>::infinity()}});
  });
  EXPECT_TRUE(lines[0]["nan"].is_null());
  EXPECT_TRUE(lines[0]["infinity"].is_null());
}

TEST(LoggingTest, LinesBelowTheLevelAreNotWritten) {
  const auto lines = Logged([] {
    Log(LogLevel::kDebug, "unseen");
    SetLogLevel(LogLevel::kError);
    Log(LogLevel::kWarning, "unseen");
    Log(LogLevel::kError, "seen");
    SetLogLevel(LogLevel::kDebug);
    Log(LogLevel::kDebug, "seen_too");
    SetLogLevel(LogLevel::kInfo);
  });
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["event"], "seen");
  EXPECT_EQ(lines[1]["event"], "seen_too");
}

TEST(LoggingTest, LinesOfManyThreadsAreWhole) {
  const auto lines = Logged([] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int line = 0; line < 50; ++line)
          Log(LogLevel::kInfo, "event", {{"text", std::string(2000, 'x')}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(lines.size(), 200u);
}

}  // namespace
}  // namespace deform::base
