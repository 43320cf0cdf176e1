#include "rpc/health_service.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/error.h"
#include "rpc/status.h"

namespace deform::rpc {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

grpc::Status Draining() {
  return ToWireStatus(
             base::MakeError(
                 absl::StatusCode::kUnavailable, "the server is shutting down",
                 {.reason = "DRAINING", .field_violations = {}, .retry_after = std::nullopt}))
      .status;
}

}  // namespace

// One stream. Writes the newest status that its client hasn't got, one write at a time, so that a
// slow client skips statuses rather than makes the server keep them.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(HealthService& health, std::string service)
      : health_(health), service_(std::move(service)) {
    std::lock_guard lock(health_.mutex_);
    if (health_.watches_ended_) {
      EndLocked(Draining());
      return;
    }
    health_.watchers_.insert(this);
    WriteLocked();
  }

  // Each of these REQUIRES: the service's mutex is held. gRPC runs reactions on threads of its own,
  // never inside StartWrite or Finish.
  void WriteLocked() {
    const ServingStatus status = health_.StatusOf(service_);
    if (ended_ || writing_ || status == written_) return;
    written_ = status;
    writing_ = true;
    message_.set_status(status);
    StartWrite(&message_);
  }
  void EndLocked(grpc::Status status) {
    if (ended_) return;
    ended_ = true;
    health_.watchers_.erase(this);
    Finish(std::move(status));
  }

 private:
  ~Watcher() override = default;

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(health_.mutex_);
    writing_ = false;
    ok ? WriteLocked() : EndLocked(grpc::Status::CANCELLED);
  }
  void OnCancel() override {
    std::lock_guard lock(health_.mutex_);
    EndLocked(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

  HealthService& health_;
  const std::string service_;
  HealthCheckResponse message_;
  std::optional<ServingStatus> written_;
  bool writing_ = false;
  bool ended_ = false;
};

HealthService::ServingStatus HealthService::StatusOf(const std::string& service) const {
  const auto found = serving_.find(service);
  if (found == serving_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return found->second && !draining_ ? HealthCheckResponse::SERVING
                                     : HealthCheckResponse::NOT_SERVING;
}

void HealthService::SetServing(const std::string& service, bool serving) {
  std::lock_guard lock(mutex_);
  serving_[service] = serving;
  for (Watcher* watcher : watchers_) watcher->WriteLocked();
}

void HealthService::StartDraining() {
  std::lock_guard lock(mutex_);
  draining_ = true;
  for (Watcher* watcher : watchers_) watcher->WriteLocked();
}

void HealthService::EndWatches() {
  std::lock_guard lock(mutex_);
  watches_ended_ = true;
  while (!watchers_.empty()) (*watchers_.begin())->EndLocked(Draining());
}

bool HealthService::Serving(const std::string& service) const {
  std::lock_guard lock(mutex_);
  return StatusOf(service) == HealthCheckResponse::SERVING;
}

bool HealthService::draining() const {
  std::lock_guard lock(mutex_);
  return draining_;
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  std::unique_lock lock(mutex_);
  const ServingStatus status = StatusOf(request->service());
  lock.unlock();
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    reactor->Finish(ToWireStatus(base::MakeError(absl::StatusCode::kNotFound,
                                                 "the server knows no service of this name",
                                                 {.reason = "SERVICE_NOT_FOUND",
                                                  .field_violations = {},
                                                  .retry_after = std::nullopt}))
                        .status);
    return reactor;
  }
  response->set_status(status);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  return new Watcher(*this, request->service());
}

}  // namespace deform::rpc
