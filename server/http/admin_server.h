#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

namespace deform::http {

// The admin port, for probes and Prometheus: plain HTTP/1.1, GET and HEAD, on
//   /metrics  all metrics in Prometheus' text form
//   /healthz  200 while the process answers at all
//   /readyz   200 when ready, else 503 with why not
// and 404 on all else. A request with a body is refused. Answers on threads of its own, which never
// wait for a model.
class AdminServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // IPv6 without brackets
    int port = 0;                    // 0: any that is free
  };
  // Why the server isn't ready, "loading"; empty when it is. Thread-safe.
  using Readiness = std::function<std::string()>;

  // Opens the port and answers. FAILED_PRECONDITION when it can't be opened. `metrics` outlive the
  // server.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(
      const Options& options, std::vector<const prometheus::Collectable*> metrics,
      Readiness readiness);
  // Closes the port and joins.
  ~AdminServer();

  int port() const;

 private:
  struct State;
  explicit AdminServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace deform::http
