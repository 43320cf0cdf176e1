#pragma once

#include "deform/segmentation/v1/segmentation.grpc.pb.h"
#include "rpc/call.h"
#include "rpc/owned_messages.h"

namespace deform::rpc {

// deform.segmentation.v1.Segmentation. No call blocks a thread of gRPC's: what takes time runs on
// the predictor's threads, the encoding of its answer too.
class SegmentationService final : public segmentation::v1::Segmentation::CallbackService {
 public:
  explicit SegmentationService(CallEnvironment environment);

  grpc::ServerUnaryReactor* Segment(grpc::CallbackServerContext* context,
                                    const segmentation::v1::SegmentRequest* request,
                                    segmentation::v1::SegmentResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const segmentation::v1::ListModelsRequest* request,
                                       segmentation::v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const segmentation::v1::GetModelRequest* request,
                                     segmentation::v1::GetModelResponse* response) override;

 private:
  const CallEnvironment environment_;
  OwnedMessagesAllocator<segmentation::v1::SegmentRequest, segmentation::v1::SegmentResponse>
      segment_messages_;
};

}  // namespace deform::rpc
