#include "rpc/segmentation_service.h"

#include <string>
#include <utility>

#include "rpc/decode_request.h"
#include "rpc/describe_models.h"
#include "rpc/encode_response.h"

namespace deform::rpc {

namespace v1 = segmentation::v1;

SegmentationService::SegmentationService(CallEnvironment environment) : environment_(environment) {
  SetMessageAllocatorFor_Segment(&segment_messages_);
}

grpc::ServerUnaryReactor* SegmentationService::Segment(grpc::CallbackServerContext* context,
                                                       const v1::SegmentRequest*,
                                                       v1::SegmentResponse* response) {
  auto* call = new UnaryCall(context, environment_, "Segment");
  auto& message = MutableRequest<v1::SegmentRequest, v1::SegmentResponse>(context);
  const std::string model = message.model();
  auto decoded = DecodeSegmentRequest(std::move(message), call->context());
  if (!decoded.ok()) {
    call->Refuse(decoded.status(), model);
    return call;
  }
  environment_.predictor->Segment(
      std::move(decoded->request), [this, call, response, encoding = decoded->mask_encoding](
                                       absl::StatusOr<serving::SegmentAnswer> answer) {
        if (!answer.ok()) return call->Finish(answer.status());
        absl::Status encoded = EncodeSegmentResponse(*answer, encoding, environment_.clock,
                                                     environment_.metrics, *response);
        if (encoded.ok()) encoded = CheckAnswerSize(response->ByteSizeLong(), environment_);
        encoded.ok() ? call->Finish(encoded) : call->FinishUnsent(encoded);
      });
  return call;
}

grpc::ServerUnaryReactor* SegmentationService::ListModels(grpc::CallbackServerContext* context,
                                                          const v1::ListModelsRequest* request,
                                                          v1::ListModelsResponse* response) {
  auto* call = new UnaryCall(context, environment_, "ListModels");
  call->Finish(rpc::ListModels(environment_.predictor->models(), *request, *response));
  return call;
}

grpc::ServerUnaryReactor* SegmentationService::GetModel(grpc::CallbackServerContext* context,
                                                        const v1::GetModelRequest* request,
                                                        v1::GetModelResponse* response) {
  auto* call = new UnaryCall(context, environment_, "GetModel");
  call->Finish(rpc::GetModel(environment_.predictor->models(), *request, *response));
  return call;
}

}  // namespace deform::rpc
