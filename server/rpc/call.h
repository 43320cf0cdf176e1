#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "serving/call.h"
#include "serving/predictor.h"

namespace deform::rpc {

// What the calls of one server share. All of it outlives the server.
struct CallEnvironment {
  serving::Predictor* predictor = nullptr;
  base::Clock* clock = nullptr;
  base::Metrics* metrics = nullptr;
  int64_t max_send_bytes = 0;            // a larger answer is refused
  std::function<void()> call_cancelled;  // see Server::Options
};

// One unary call in progress: its id, deadline and cancellation, and its one end. Deletes itself
// when gRPC is done with it; until it is finished it may be used from any thread.
//
// The id is the metadata `x-request-id` (1 to 128 printable ASCII characters), or is made, and goes
// back as initial metadata.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // method: "Segment", … as in the metrics.
  UnaryCall(grpc::CallbackServerContext* grpc_context, const CallEnvironment& environment,
            std::string method);

  const serving::CallContext& context() const { return context_; }

  // Answers with `status`, and with the response where it is OK. Called once; the call may be gone
  // when this returns.
  void Finish(const absl::Status& status);

  // Finish for an answer that the predictor has recorded as given and that then could not be
  // encoded or sent: logs why.
  void FinishUnsent(const absl::Status& status);

  // Finish for a request that never gets to the predictor, which records what does: this leaves its
  // metrics and its line in the log. model: as the client wrote it.
  void Refuse(const absl::Status& status, const std::string& model);

 private:
  ~UnaryCall() override = default;
  void OnCancel() override;
  void OnDone() override { delete this; }

  grpc::CallbackServerContext* const grpc_context_;
  const CallEnvironment& environment_;
  serving::CallContext context_;
};

// RESOURCE_EXHAUSTED, reason ANSWER_TOO_LARGE, when an answer of `bytes` may not be sent.
absl::Status CheckAnswerSize(size_t bytes, const CallEnvironment& environment);

}  // namespace deform::rpc
