#include "calls/model_catalog.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calls/call_error.h"
#include "calls/channel.h"

namespace deform::client {

using segmentation::v1::GetModelRequest;
using segmentation::v1::GetModelResponse;
using segmentation::v1::ListModelsRequest;
using segmentation::v1::ListModelsResponse;
using segmentation::v1::ModelSummary;

ModelCatalog::ModelCatalog(segmentation::v1::Segmentation::StubInterface& stub,
                           std::chrono::nanoseconds timeout)
    : stub_(stub), timeout_(timeout) {}

absl::StatusOr<std::vector<ModelSummary>> ModelCatalog::List() const {
  std::vector<ModelSummary> models;
  std::set<std::string> seen_tokens;
  ListModelsRequest request;
  do {
    grpc::ClientContext context;
    SetTimeout(context, timeout_);
    ListModelsResponse response;
    const grpc::Status status = stub_.ListModels(&context, request, &response);
    if (!status.ok()) return ToStatus(ReadCallError(status));
    models.insert(models.end(), response.models().begin(), response.models().end());
    request.set_page_token(response.next_page_token());
    if (!seen_tokens.insert(request.page_token()).second) {
      return absl::InternalError("the server's list of models doesn't end");
    }
  } while (!request.page_token().empty());
  return models;
}

absl::StatusOr<GetModelResponse> ModelCatalog::Get(const std::string& name, int64_t version) const {
  grpc::ClientContext context;
  SetTimeout(context, timeout_);
  GetModelRequest request;
  request.set_name(name);
  request.set_version(version);
  GetModelResponse response;
  const grpc::Status status = stub_.GetModel(&context, request, &response);
  if (!status.ok()) return ToStatus(ReadCallError(status));
  return response;
}

absl::StatusOr<std::string> ModelCatalog::OnlyName() const {
  const absl::StatusOr<std::vector<ModelSummary>> models = List();
  if (!models.ok()) return models.status();
  std::set<std::string> names;
  for (const ModelSummary& model : *models) names.insert(model.name());
  if (names.empty()) return absl::NotFoundError("the server has no models");
  if (names.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the server has several models, choose one with --model: ", absl::StrJoin(names, ", ")));
  }
  return *names.begin();
}

}  // namespace deform::client
