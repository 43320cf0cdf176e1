#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/error.h"

namespace deform::app {

// Collects what is wrong with a configuration, so that all of it is told at once.
class ConfigFaults {
 public:
  // setting: its field name, "max_batch". description: what came, what is allowed.
  void Add(const std::string& setting, const std::string& description);
  // Those of a status that ToStatus made; any other status as one fault without a setting.
  void AddAll(const absl::Status& status);

  // OK when there are none, else INVALID_ARGUMENT, reason INVALID_CONFIG: one "name: description" a
  // line, and as field violations.
  absl::Status ToStatus() const;

 private:
  std::vector<base::FieldViolation> faults_;
};

}  // namespace deform::app
