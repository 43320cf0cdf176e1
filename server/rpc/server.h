#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "serving/predictor.h"

namespace deform::rpc {

// The gRPC server with all its services: Segmentation, GRPCInferenceService, Health, reflection.
// Not ready when it starts. This header holds no gRPC. Thread-safe.
class Server {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // IPv6 without brackets
    int port = 0;                    // 0: any that is free
    int64_t max_receive_bytes = 32 << 20;
    int64_t max_send_bytes = 64 << 20;
    std::string version;  // of the product, for ServerMetadata
    // Told once a call's cancellation has been seen here, some time after its client gave up. From
    // gRPC's threads; may be empty.
    std::function<void()> call_cancelled;
  };

  // Opens the port and answers. FAILED_PRECONDITION when it can't be opened. `predictor`, `clock`
  // and `metrics` outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const Options& options,
                                                       serving::Predictor* predictor,
                                                       base::Clock* clock, base::Metrics* metrics);
  // Shuts down at once if nobody did.
  ~Server();

  int port() const;

  // What Health tells: of the server and its services, and of "models/NAME".
  void SetReady(bool ready);
  void SetModelReady(const std::string& name, bool ready);

  // Not ready any more, for good; still answers.
  void StartDraining();

  // Takes no new calls (clients are told by GOAWAY), ends watches of health, waits for the calls
  // that were accepted, and cancels those that are left after `grace`. Blocks; once.
  void Shutdown(base::Duration grace);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace deform::rpc
