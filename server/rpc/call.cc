#include "rpc/call.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cancellation.h"
#include "base/error.h"
#include "base/logging.h"
#include "rpc/status.h"
#include "serving/request_record.h"

namespace deform::rpc {
namespace {

constexpr char kRequestId[] = "x-request-id";
constexpr size_t kMaxRequestIdBytes = 128;

std::string MakeRequestId() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return absl::StrCat(absl::Hex(generator(), absl::kZeroPad16),
                      absl::Hex(generator(), absl::kZeroPad16));
}

std::string RequestId(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(kRequestId);
  if (found == context.client_metadata().end()) return MakeRequestId();
  const grpc::string_ref id = found->second;
  const bool usable =
      !id.empty() && id.size() <= kMaxRequestIdBytes &&
      std::all_of(id.begin(), id.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return usable ? std::string(id.data(), id.size()) : MakeRequestId();
}

// gRPC's deadline is a time of the wall clock.
base::TimePoint SteadyDeadline(std::chrono::system_clock::time_point deadline,
                               base::TimePoint now) {
  if (deadline == std::chrono::system_clock::time_point::max()) return base::TimePoint::max();
  const auto left = deadline - std::chrono::system_clock::now();
  if (left > std::chrono::hours(24 * 365)) return base::TimePoint::max();
  return now + std::chrono::duration_cast<base::Duration>(left);
}

}  // namespace

UnaryCall::UnaryCall(grpc::CallbackServerContext* grpc_context, const CallEnvironment& environment,
                     std::string method)
    : grpc_context_(grpc_context), environment_(environment) {
  context_.request_id = RequestId(*grpc_context);
  context_.method = std::move(method);
  context_.deadline = SteadyDeadline(grpc_context->deadline(), environment.clock->Now());
  context_.cancellation = std::make_shared<base::Cancellation>();
  grpc_context->AddInitialMetadata(kRequestId, context_.request_id);
}

void UnaryCall::Finish(const absl::Status& status) {
  WireStatus wire = ToWireStatus(status);
  if (!wire.retry_pushback_ms.empty()) {
    grpc_context_->AddTrailingMetadata("grpc-retry-pushback-ms", wire.retry_pushback_ms);
  }
  ServerUnaryReactor::Finish(std::move(wire.status));
}

void UnaryCall::FinishUnsent(const absl::Status& status) {
  base::Log(base::LogLevel::kWarning, "answer_not_sent",
            {{"request_id", context_.request_id},
             {"method", context_.method},
             {"code", absl::StatusCodeToString(status.code())},
             {"message", std::string(status.message())}});
  Finish(status);
}

void UnaryCall::Refuse(const absl::Status& status, const std::string& model) {
  serving::RequestRecord record(context_, model, environment_.clock, environment_.metrics);
  const absl::Status found = environment_.predictor->models().Acquire(model, 0).status();
  if (!absl::IsNotFound(found)) record.NameModel(model);
  record.Finish(status);
  Finish(status);
}

void UnaryCall::OnCancel() {
  // gRPC also cancels a call whose deadline has passed; the predictor tells that apart by itself.
  if (environment_.clock->Now() < context_.deadline) context_.cancellation->Cancel();
  if (environment_.call_cancelled) environment_.call_cancelled();
}

absl::Status CheckAnswerSize(size_t bytes, const CallEnvironment& environment) {
  if (bytes <= static_cast<size_t>(environment.max_send_bytes)) return absl::OkStatus();
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      absl::StrCat("the answer has ", bytes, " bytes; at most ", environment.max_send_bytes,
                   " may be sent"),
      {.reason = "ANSWER_TOO_LARGE", .field_violations = {}, .retry_after = std::nullopt});
}

}  // namespace deform::rpc
