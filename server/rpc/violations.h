#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/error.h"

namespace deform::rpc {

// Collects what is wrong with a request, so that its sender learns all of it at once.
class Violations {
 public:
  // field: path in the request, "options.max_results". description: what came, what is allowed.
  void Add(std::string field, std::string description);

  bool empty() const { return violations_.empty(); }

  // OK when there are none, else INVALID_ARGUMENT, reason INVALID_FIELD, with each of them.
  absl::Status ToStatus() const;

 private:
  std::vector<base::FieldViolation> violations_;
};

}  // namespace deform::rpc
