#include "rpc/inference_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/decode_infer.h"
#include "rpc/decode_request.h"
#include "rpc/encode_infer.h"

namespace deform::rpc {

InferenceService::InferenceService(CallEnvironment environment, std::string server_version,
                                   std::function<bool()> serving, std::function<bool()> draining)
    : environment_(environment),
      server_version_(std::move(server_version)),
      serving_(std::move(serving)),
      draining_(std::move(draining)) {
  SetMessageAllocatorFor_ModelInfer(&infer_messages_);
}

grpc::ServerUnaryReactor* InferenceService::ServerLive(grpc::CallbackServerContext* context,
                                                       const inference::ServerLiveRequest*,
                                                       inference::ServerLiveResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ServerLive");
  response->set_live(true);
  call->Finish(absl::OkStatus());
  return call;
}

grpc::ServerUnaryReactor* InferenceService::ServerReady(grpc::CallbackServerContext* context,
                                                        const inference::ServerReadyRequest*,
                                                        inference::ServerReadyResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ServerReady");
  response->set_ready(serving_());
  call->Finish(absl::OkStatus());
  return call;
}

grpc::ServerUnaryReactor* InferenceService::ModelReady(grpc::CallbackServerContext* context,
                                                       const inference::ModelReadyRequest* request,
                                                       inference::ModelReadyResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ModelReady");
  Violations violations;
  const int64_t version = DecodeVersion("version", request->version(), violations);
  response->set_ready(violations.empty() && !draining_() &&
                      environment_.predictor->models().ModelReady(request->name(), version));
  call->Finish(violations.ToStatus());
  return call;
}

grpc::ServerUnaryReactor* InferenceService::ServerMetadata(
    grpc::CallbackServerContext* context, const inference::ServerMetadataRequest*,
    inference::ServerMetadataResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ServerMetadata");
  response->set_name("deform-server");
  response->set_version(server_version_);
  call->Finish(absl::OkStatus());
  return call;
}

grpc::ServerUnaryReactor* InferenceService::ModelMetadata(
    grpc::CallbackServerContext* context, const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ModelMetadata");
  Violations violations;
  CheckModelName("name", request->name(), violations);
  const int64_t version = DecodeVersion("version", request->version(), violations);
  absl::Status status = violations.ToStatus();
  if (status.ok()) {
    const auto handle = environment_.predictor->models().Acquire(request->name(), version);
    status = handle.status();
    if (status.ok()) EncodeModelMetadata(**handle, *response);
  }
  call->Finish(status);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::ModelInfer(grpc::CallbackServerContext* context,
                                                       const inference::ModelInferRequest*,
                                                       inference::ModelInferResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ModelInfer");
  auto& message =
      MutableRequest<inference::ModelInferRequest, inference::ModelInferResponse>(context);
  absl::StatusOr<serving::InferRequest> decoded =
      DecodeInferRequest(std::move(message), call->context());
  if (!decoded.ok()) {
    call->Refuse(decoded.status(), message.model_name());
    return call;
  }
  // Names of outputs are looked at before the network runs; a model that can't be had is the
  // predictor's to tell.
  const auto handle = environment_.predictor->models().Acquire(decoded->model, decoded->version);
  if (handle.ok()) {
    const absl::Status outputs = CheckRequestedOutputs(message, (*handle)->manifest);
    if (!outputs.ok()) {
      call->Refuse(outputs, message.model_name());
      return call;
    }
  }
  // `message` lives as long as the call.
  environment_.predictor->Infer(
      *std::move(decoded),
      [this, call, &message, response](absl::StatusOr<serving::InferAnswer> answer) {
        if (!answer.ok()) return call->Finish(answer.status());
        EncodeInferResponse(*answer, message, *response);
        const absl::Status size = CheckAnswerSize(response->ByteSizeLong(), environment_);
        size.ok() ? call->Finish(size) : call->FinishUnsent(size);
      });
  return call;
}

}  // namespace deform::rpc
