#include "app/command_line.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "app/config_faults.h"
#include "app/config_reader.h"

namespace deform::app {
namespace {

absl::Status ReadConfigFile(const std::string& path, config::v1::ServerConfig& config) {
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path)) {  // a folder opens, and throws when read
    return absl::InvalidArgumentError(absl::StrCat("--config: can't read ", path));
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return ReadConfigJson(text, config);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const ConfigSurroundings& surroundings) {
  CLI::App options("Serves segmentation models over gRPC.", "deform-server");
  std::string config_file;
  bool check = false;
  bool version = false;
  options.add_option("--config", config_file, "JSON file with settings by the names below");
  options.add_flag("--check", check,
                   "check configuration and packages, serve nothing; exit 0 when all is well");
  options.add_flag("--version", version, "print the version");
  std::map<std::string, std::string> values;
  for (const Setting& setting : Settings()) {
    const std::string flag = "--" + setting.name;
    if (setting.is_switch) {
      options.add_flag(flag, values[setting.name], setting.help);
    } else {
      options.add_option(flag, values[setting.name], setting.help);
    }
  }
  try {
    options.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return CommandLine{.action = CommandLine::Action::kHelp, .config = {}, .help = options.help()};
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (version)
    return CommandLine{.action = CommandLine::Action::kVersion, .config = {}, .help = ""};

  ConfigFaults faults;
  config::v1::ServerConfig message;
  if (!config_file.empty()) faults.AddAll(ReadConfigFile(config_file, message));
  std::map<std::string, std::string> given;
  for (auto& [name, value] : values) {
    if (options.count("--" + name) > 0) given.emplace(name, std::move(value));
  }
  faults.AddAll(ApplyFlags(given, message));
  absl::StatusOr<Config> config = ResolveConfig(message, surroundings);
  faults.AddAll(config.status());
  if (absl::Status status = faults.ToStatus(); !status.ok()) return status;
  return CommandLine{.action = check ? CommandLine::Action::kCheck : CommandLine::Action::kServe,
                     .config = *std::move(config),
                     .help = ""};
}

}  // namespace deform::app
