#include "select/fallbacks.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <mutex>

namespace deform::ops {
namespace {

struct Counted {
  std::mutex mutex;
  std::vector<Fallback> fallbacks;  // a handful: one for each reason there was
};

Counted& counted() {
  static Counted* const instance = new Counted;  // outlives whatever still calls at exit
  return *instance;
}

bool warnings_wanted() {
  const char* setting = std::getenv("DEFORM_FALLBACK_WARNINGS");
  return setting == nullptr || std::strcmp(setting, "0") != 0;
}

// Whether this is the first of its kind.
bool count(const Fallback& fallback) {
  const std::lock_guard<std::mutex> lock(counted().mutex);
  for (Fallback& known : counted().fallbacks) {
    if (known.op == fallback.op && known.from == fallback.from && known.to == fallback.to &&
        known.reason == fallback.reason) {
      ++known.calls;
      return false;
    }
  }
  counted().fallbacks.push_back(fallback);
  counted().fallbacks.back().calls = 1;
  return true;
}

}  // namespace

void record_fallback(Op op, const Resolution& resolution) {
  Fallback fallback{name_of(op), name_of(resolution.rejected.front().backend),
                    name_of(*resolution.backend), resolution.rejected.front().reason};
  for (size_t i = 1; i < resolution.rejected.size(); ++i) {
    const Rejection& rejected = resolution.rejected[i];
    fallback.reason += std::string("; ") + name_of(rejected.backend) + ": " + rejected.reason;
  }
  if (!count(fallback) || !warnings_wanted()) return;
  TORCH_WARN("BackendFallbackWarning: ", fallback.op, " runs on ", fallback.to, ", not on ",
             fallback.from, ": ", fallback.reason);
}

std::vector<Fallback> fallbacks() {
  const std::lock_guard<std::mutex> lock(counted().mutex);
  return counted().fallbacks;
}

}  // namespace deform::ops
