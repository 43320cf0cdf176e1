#include "cli/run.h"

#include <variant>

#include "base/clock.h"
#include "calls/channel.h"
#include "cli/command_line.h"
#include "cli/health_command.h"
#include "cli/models_command.h"
#include "cli/segment_command.h"

namespace deform::client {
namespace {

// Runs each kind of command over a channel of its own.
struct CommandRunner {
  Console& console;

  int operator()(const SegmentArguments& arguments) const {
    const auto stub =
        segmentation::v1::Segmentation::NewStub(OpenChannel(arguments.connection.address));
    const base::SteadyClock clock;
    return RunSegment(arguments, *stub, clock, console);
  }

  int operator()(const ModelsArguments& arguments) const {
    const auto stub =
        segmentation::v1::Segmentation::NewStub(OpenChannel(arguments.connection.address));
    return RunModels(arguments, *stub, console);
  }

  int operator()(const HealthArguments& arguments) const {
    const auto stub = grpc::health::v1::Health::NewStub(OpenChannel(arguments.connection.address));
    return RunHealth(arguments, *stub, console);
  }
};

}  // namespace

int Run(int argc, const char* const* argv, Console& console) {
  const std::variant<Command, int> parsed = ParseCommandLine(argc, argv, console);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  return std::visit(CommandRunner{console}, std::get<Command>(parsed));
}

}  // namespace deform::client
