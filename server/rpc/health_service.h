#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace deform::rpc {

// grpc.health.v1.Health: Check and Watch by service name, "" for the server as a whole.
//
// gRPC's own health service isn't used, because it says SERVING from the moment the port opens,
// before anybody can tell it otherwise, and because the streams of its watchers hold up a graceful
// shutdown until its deadline. Thread-safe; outlives the server.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  HealthService() = default;
  // REQUIRES: no watch is open, which a server that was shut down guarantees.
  ~HealthService() override = default;

  // From now on `service` is known, and serves or not; those who watch it are told of a change.
  // Once draining nothing serves, whatever is set.
  void SetServing(const std::string& service, bool serving);

  // Nothing serves any more.
  void StartDraining();

  // Ends every watch, and those that are yet to come, with UNAVAILABLE.
  void EndWatches();

  bool Serving(const std::string& service) const;
  bool draining() const;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // REQUIRES: mutex_ is held.
  ServingStatus StatusOf(const std::string& service) const;

  mutable std::mutex mutex_;
  // All below is guarded by mutex_, the watchers' own state too.
  std::map<std::string, bool> serving_;
  std::set<Watcher*> watchers_;
  bool draining_ = false;
  bool watches_ended_ = false;
};

}  // namespace deform::rpc
