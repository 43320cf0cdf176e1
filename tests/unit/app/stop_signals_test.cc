#include "app/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <future>

namespace deform::app {
namespace {

// Each in a process of its own: signals belong to all of a process.
class StopSignalsDeathTest : public ::testing::Test {
 protected:
  StopSignalsDeathTest() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(StopSignalsDeathTest, TheFirstSignalIsACall) {
  EXPECT_EXIT(
      {
        HoldStopSignals();
        std::promise<int> stopped;
        StopSignals signals([&](int signal) { stopped.set_value(signal); });
        kill(getpid(), SIGINT);
        std::_Exit(stopped.get_future().get() == SIGINT ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(StopSignalsDeathTest, ASignalThatCameEarlierIsNotLost) {
  EXPECT_EXIT(
      {
        HoldStopSignals();
        kill(getpid(), SIGTERM);
        std::promise<int> stopped;
        StopSignals signals([&](int signal) { stopped.set_value(signal); });
        std::_Exit(stopped.get_future().get() == SIGTERM ? 7 : 1);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(StopSignalsDeathTest, TheSecondSignalEndsTheProcessAtOnce) {
  EXPECT_EXIT(
      {
        HoldStopSignals();
        StopSignals signals([](int) { kill(getpid(), SIGTERM); });
        kill(getpid(), SIGINT);
        std::promise<void>().get_future().wait();  // never
      },
      ::testing::ExitedWithCode(128 + SIGTERM), "");
}

TEST_F(StopSignalsDeathTest, GoesAwayWithoutASignal) {
  EXPECT_EXIT(
      {
        HoldStopSignals();
        {
          StopSignals signals([](int) { std::_Exit(1); });
        }
        std::_Exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace deform::app
