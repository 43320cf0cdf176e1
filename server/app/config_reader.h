#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deform/config/v1/config.pb.h"

namespace deform::app {

// Reads the text of a --config file, one JSON object with settings by their field names in the
// forms of proto3 JSON (times as "0.002s"), into `config`. INVALID_ARGUMENT names every unknown
// setting and every value of a wrong type; the others are read all the same.
absl::Status ReadConfigJson(const std::string& json, config::v1::ServerConfig& config);

// Sets the settings given as flags, by name and text, over what `config` holds. Errors as above.
absl::Status ApplyFlags(const std::map<std::string, std::string>& flags,
                        config::v1::ServerConfig& config);

// Every setting, in the order of config.proto.
struct Setting {
  std::string name;
  bool is_switch = false;  // true or false
  std::string help;
};
std::vector<Setting> Settings();

}  // namespace deform::app
