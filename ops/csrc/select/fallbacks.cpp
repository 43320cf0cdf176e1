#include "select/fallbacks.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

namespace deform::ops {
namespace {

struct Kind {
  Fallback fallback;
  std::atomic<int64_t> calls = 0;
};

struct Counted {
  std::mutex mutex;
  std::deque<Kind> kinds;  // a handful, one for each reason there was; none is ever moved
};

Counted& counted() {
  static Counted* const instance = new Counted;  // outlives whatever still calls at exit
  return *instance;
}

bool warnings_wanted() {
  const char* setting = std::getenv("DEFORM_FALLBACK_WARNINGS");
  return setting == nullptr || std::strcmp(setting, "0") != 0;
}

// The count of this kind, and whether it is new.
std::pair<std::atomic<int64_t>*, bool> find(const Fallback& fallback) {
  const std::lock_guard<std::mutex> lock(counted().mutex);
  for (Kind& kind : counted().kinds) {
    const Fallback& known = kind.fallback;
    if (known.op == fallback.op && known.from == fallback.from && known.to == fallback.to &&
        known.reason == fallback.reason) {
      return {&kind.calls, false};
    }
  }
  Kind& added = counted().kinds.emplace_back();
  added.fallback = fallback;
  return {&added.calls, true};
}

}  // namespace

std::atomic<int64_t>& record_fallback(Op op, const Resolution& resolution) {
  Fallback fallback{name_of(op), name_of(resolution.rejected.front().backend),
                    name_of(*resolution.backend), resolution.rejected.front().reason};
  for (size_t i = 1; i < resolution.rejected.size(); ++i) {
    const Rejection& rejected = resolution.rejected[i];
    fallback.reason += std::string("; ") + name_of(rejected.backend) + ": " + rejected.reason;
  }
  const auto [calls, is_new] = find(fallback);
  ++*calls;
  if (is_new && warnings_wanted()) {
    TORCH_WARN("BackendFallbackWarning: ", fallback.op, " runs on ", fallback.to, ", not on ",
               fallback.from, ": ", fallback.reason);
  }
  return *calls;
}

std::vector<Fallback> fallbacks() {
  const std::lock_guard<std::mutex> lock(counted().mutex);
  std::vector<Fallback> all;
  for (const Kind& kind : counted().kinds) {
    all.push_back(kind.fallback);
    all.back().calls = kind.calls;
  }
  return all;
}

}  // namespace deform::ops
