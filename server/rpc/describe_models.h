#pragma once

#include "absl/status/status.h"
#include "deform/segmentation/v1/segmentation.pb.h"
#include "lifecycle/model_manager.h"

namespace deform::rpc {

// One page of the models found, by name and version. A page's token holds the last model of the
// page before, so that pages stay right while models come and go. INVALID_ARGUMENT names
// `page_size` (above 1000) or `page_token` (not one of ours).
absl::Status ListModels(const lifecycle::ModelManager& models,
                        const segmentation::v1::ListModelsRequest& request,
                        segmentation::v1::ListModelsResponse& response);

// One model in full when it serves, else its summary with the state and why. NOT_FOUND as
// ModelManager::Acquire's; INVALID_ARGUMENT names `name` or `version`.
absl::Status GetModel(const lifecycle::ModelManager& models,
                      const segmentation::v1::GetModelRequest& request,
                      segmentation::v1::GetModelResponse& response);

}  // namespace deform::rpc
