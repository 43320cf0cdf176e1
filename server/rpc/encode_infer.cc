#include "rpc/encode_infer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "rpc/oip_datatype.h"

namespace deform::rpc {
namespace {

void EncodeOutput(const std::string& name, const engine::Tensor& tensor,
                  inference::ModelInferResponse& response) {
  auto& output = *response.add_outputs();
  output.set_name(name);
  output.set_datatype(OipDatatype(tensor.dtype()));
  output.mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
  response.add_raw_output_contents(tensor.data(), tensor.bytes());
}

void EncodeSpec(const engine::TensorSpec& spec,
                inference::ModelMetadataResponse::TensorMetadata& out) {
  out.set_name(spec.name);
  out.set_datatype(OipDatatype(spec.dtype));
  out.mutable_shape()->Add(spec.shape.begin(), spec.shape.end());
}

}  // namespace

void EncodeInferResponse(const serving::InferAnswer& answer,
                         const inference::ModelInferRequest& request,
                         inference::ModelInferResponse& response) {
  response.set_model_name(answer.model->name);
  response.set_model_version(std::to_string(answer.model->version));
  response.set_id(request.id());
  const std::vector<engine::TensorSpec>& specs = answer.model->manifest.outputs;
  if (request.outputs().empty()) {
    for (size_t i = 0; i < specs.size(); ++i) {
      EncodeOutput(specs[i].name, answer.outputs[i], response);
    }
    return;
  }
  for (const auto& requested : request.outputs()) {
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const auto& s) { return s.name == requested.name(); });
    if (spec == specs.end()) continue;  // refused by CheckRequestedOutputs before
    EncodeOutput(spec->name, answer.outputs[spec - specs.begin()], response);
  }
}

void EncodeModelMetadata(const lifecycle::ServableModel& model,
                         inference::ModelMetadataResponse& response) {
  response.set_name(model.name);
  response.add_versions(std::to_string(model.version));
  response.set_platform("pytorch_aotinductor");
  for (const auto& spec : model.manifest.inputs) EncodeSpec(spec, *response.add_inputs());
  for (const auto& spec : model.manifest.outputs) EncodeSpec(spec, *response.add_outputs());
}

}  // namespace deform::rpc
