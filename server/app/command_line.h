#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "app/config.h"

namespace deform::app {

// What deform-server was asked to do.
struct CommandLine {
  enum class Action { kServe, kCheck, kVersion, kHelp };
  Action action = Action::kServe;
  Config config;     // of kServe and kCheck
  std::string help;  // of kHelp
};

// Reads --config FILE, a flag for each setting (--max_batch=16, over the file's), --check,
// --version and --help. INVALID_ARGUMENT has every fault of file, flags and values together.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const ConfigSurroundings& surroundings);

}  // namespace deform::app
