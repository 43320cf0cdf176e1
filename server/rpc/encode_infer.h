#pragma once

#include "inference/grpc_service.pb.h"
#include "lifecycle/servable_model.h"
#include "serving/predictor.h"

namespace deform::rpc {

// The outputs that `request` names, in its order, or all; as raw contents.
void EncodeInferResponse(const serving::InferAnswer& answer,
                         const inference::ModelInferRequest& request,
                         inference::ModelInferResponse& response);

// The network's tensors, with -1 for the batch.
void EncodeModelMetadata(const lifecycle::ServableModel& model,
                         inference::ModelMetadataResponse& response);

}  // namespace deform::rpc
