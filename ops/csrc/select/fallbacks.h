// Calls that didn't get their first choice of backend: counted, and warned of once for each reason.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "select/policy.h"

namespace deform::ops {

// One way in which calls went past their first choice.
struct Fallback {
  std::string op;
  std::string from;    // the first choice
  std::string to;      // what ran
  std::string reason;  // why not `from`, nor whatever else came before `to`
  int64_t calls = 0;
};

// Counts the call and, the first time for this op, choice and reason, issues a torch warning that
// starts with "BackendFallbackWarning", unless DEFORM_FALLBACK_WARNINGS=0. Returns the count, for
// later calls that are known to be of the same kind; it stays for good. REQUIRES: something was
// rejected and something chosen. Thread-safe.
std::atomic<int64_t>& record_fallback(Op op, const Resolution& resolution);

// All that record_fallback has counted in this process. Thread-safe.
std::vector<Fallback> fallbacks();

}  // namespace deform::ops
