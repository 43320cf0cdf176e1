#include "app/command_line.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace deform::app {
namespace {

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    std::string folder = std::filesystem::temp_directory_path() / "deform_config_XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~CommandLineTest() override { std::filesystem::remove_all(folder_); }

  std::string WriteConfig(const std::string& json) const {
    const std::string path = folder_ + "/config.json";
    std::ofstream(path) << json;
    return path;
  }

  static absl::StatusOr<CommandLine> Parse(std::vector<std::string> arguments) {
    std::vector<const char*> argv = {"deform-server"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    return ParseCommandLine(static_cast<int>(argv.size()), argv.data(),
                            {.binary_folder = "/bin", .cpu_share = 2});
  }

  std::string folder_;
};

TEST_F(CommandLineTest, NoArgumentsServeTheDefaults) {
  const auto command = Parse({});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->action, CommandLine::Action::kServe);
  EXPECT_EQ(command->config.model_repository, "model_repository");
}

TEST_F(CommandLineTest, FlagsWinOverTheFile) {
  const std::string file = WriteConfig(R"({"max_batch": 2, "queue_capacity": 5})");
  const auto command = Parse({"--config", file, "--max_batch=16", "--insecure"});
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->config.max_batch, 16);
  EXPECT_EQ(command->config.queue_capacity, 5);
}

TEST_F(CommandLineTest, ASwitchNeedsNoValueAndTakesOne) {
  const std::string address = "--grpc_address=0.0.0.0:1";
  EXPECT_FALSE(Parse({address}).ok());
  EXPECT_TRUE(Parse({address, "--insecure"}).ok());
  EXPECT_TRUE(Parse({address, "--insecure=true"}).ok());
  EXPECT_FALSE(Parse({address, "--insecure=false"}).ok());
}

TEST_F(CommandLineTest, FaultsOfFileFlagsAndValuesAreToldTogether) {
  const std::string file = WriteConfig(R"({"colour": "red", "max_pixels": 0})");
  const auto command = Parse({"--config=" + file, "--max_batch=lots", "--device=tpu"});
  ASSERT_FALSE(command.ok());
  for (const char* name : {"colour", "max_pixels", "max_batch", "device"}) {
    EXPECT_NE(command.status().message().find(name), absl::string_view::npos) << name;
  }
}

TEST_F(CommandLineTest, AnUnknownFlagOrAMissingFileIsAFault) {
  EXPECT_FALSE(Parse({"--max_batches=3"}).ok());
  EXPECT_FALSE(Parse({"stray"}).ok());
  EXPECT_FALSE(Parse({"--config=" + folder_ + "/none.json"}).ok());
  EXPECT_FALSE(Parse({"--config=" + folder_}).ok());
}

TEST_F(CommandLineTest, OtherActionsAreRecognised) {
  EXPECT_EQ(Parse({"--check"})->action, CommandLine::Action::kCheck);
  EXPECT_EQ(Parse({"--version"})->action, CommandLine::Action::kVersion);
  const auto help = Parse({"--help"});
  EXPECT_EQ(help->action, CommandLine::Action::kHelp);
  EXPECT_NE(help->help.find("--max_queue_delay"), std::string::npos);
}

}  // namespace
}  // namespace deform::app
