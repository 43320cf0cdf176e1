#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/console.h"
#include "deform/segmentation/v1/segmentation.pb.h"

namespace deform::client {

struct ConnectionArguments {
  std::string address = "127.0.0.1:8001";
  std::chrono::nanoseconds timeout{30'000'000'000};
};

struct SegmentArguments {
  ConnectionArguments connection;
  std::vector<std::filesystem::path> files;  // pictures and folders
  std::filesystem::path out = "out";
  std::string model;  // empty: the only one
  segmentation::v1::Task task = segmentation::v1::TASK_UNSPECIFIED;
  segmentation::v1::SegmentOptions options;  // what was asked for; the rest is left unset
  int concurrency = 8;
  bool json_only = false;
};

struct ModelsArguments {
  ConnectionArguments connection;
  std::string name;  // empty: all of them
};

struct HealthArguments {
  ConnectionArguments connection;
  std::string service;  // empty: the server as a whole
  bool watch = false;
};

using Command = std::variant<SegmentArguments, ModelsArguments, HealthArguments>;

// Reads the command line. Help and errors are written to the console, and then the exit code is
// given instead of a command: 0 after --help and --version, 64 when it can't be understood.
std::variant<Command, int> ParseCommandLine(int argc, const char* const* argv, Console& console);

}  // namespace deform::client
