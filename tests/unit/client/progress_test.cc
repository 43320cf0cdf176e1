#include "cli/progress.h"

#include <chrono>
#include <sstream>

#include "base/clock.h"
#include "cli/text_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

class ProgressTest : public testing::Test {
 protected:
  base::ManualClock clock_;
  std::ostringstream out_;
  std::ostringstream err_;
  Console console_{out_, err_};
};

TEST_F(ProgressTest, WritesALineEveryFiveSecondsWithoutATerminal) {
  Progress progress(console_, clock_, 10);
  clock_.Advance(seconds(4));
  progress.Advance(false);
  EXPECT_EQ(err_.str(), "");
  clock_.Advance(seconds(1));
  progress.Advance(true);
  EXPECT_EQ(err_.str(), "2 of 10 pictures, 1 failed, 0.4/s, 0:20 left\n");
  clock_.Advance(seconds(4));
  progress.Advance(false);
  EXPECT_EQ(err_.str(), "2 of 10 pictures, 1 failed, 0.4/s, 0:20 left\n");
}

TEST_F(ProgressTest, DrawsOneBarOnATerminal) {
  console_.err_is_terminal = true;
  console_.err_columns = 60;
  Progress progress(console_, clock_, 4);
  clock_.Advance(seconds(1));
  progress.Advance(false);
  EXPECT_THAT(err_.str(), testing::StartsWith("\r━"));
  EXPECT_THAT(err_.str(), HasSubstr(" 1/4, 1.0/s, 0:03 left"));
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("\n")));
}

TEST_F(ProgressTest, DrawsTheBarAtMostTenTimesASecond) {
  console_.err_is_terminal = true;
  Progress progress(console_, clock_, 100);
  clock_.Advance(seconds(1));
  progress.Advance(false);
  const size_t length = err_.str().size();
  clock_.Advance(milliseconds(99));
  progress.Advance(false);
  EXPECT_EQ(err_.str().size(), length);
  clock_.Advance(milliseconds(1));
  progress.Advance(false);
  EXPECT_GT(err_.str().size(), length);
}

TEST_F(ProgressTest, BarFitsInTheTerminal) {
  console_.err_is_terminal = true;
  for (const int columns : {10, 20, 30, 45, 80, 200}) {
    err_.str("");
    console_.err_columns = columns;
    Progress progress(console_, clock_, 1000);
    clock_.Advance(seconds(1));
    progress.Advance(true);
    std::string line = err_.str().substr(1);  // after the return
    line.erase(line.find("\x1b[K"));
    EXPECT_LT(DisplayWidth(line), static_cast<size_t>(columns)) << line;
    EXPECT_GT(DisplayWidth(line), 5u);
  }
}

TEST_F(ProgressTest, TakesTheBarAwayForOtherOutputAndAtTheEnd) {
  console_.err_is_terminal = true;
  Progress progress(console_, clock_, 2);
  clock_.Advance(seconds(1));
  progress.Advance(false);
  progress.Hide();
  EXPECT_THAT(err_.str(), testing::EndsWith("\r\x1b[K"));
  progress.Show();
  EXPECT_THAT(err_.str(), HasSubstr("1/2"));
  clock_.Advance(seconds(1));
  progress.Advance(false);
  EXPECT_THAT(err_.str(), testing::EndsWith("\r\x1b[K"));
}

TEST_F(ProgressTest, SaysNothingAboutASinglePicture) {
  for (const bool is_terminal : {false, true}) {
    console_.err_is_terminal = is_terminal;
    Progress progress(console_, clock_, 1);
    clock_.Advance(seconds(60));
    progress.Advance(false);
    EXPECT_EQ(err_.str(), "");
  }
}

}  // namespace
}  // namespace deform::client
