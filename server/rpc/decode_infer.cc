#include "rpc/decode_infer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rpc/decode_request.h"
#include "rpc/oip_datatype.h"
#include "rpc/typed_contents.h"

namespace deform::rpc {
namespace {

using Input = inference::ModelInferRequest::InferInputTensor;

constexpr int kMaxRank = 8;
constexpr int kMaxInputs = 64;

std::string InputField(int index, const char* field) {
  return absl::StrCat("inputs[", index, "].", field);
}

// Bytes of a tensor; nullopt for a negative size or more bytes than can be counted.
std::optional<int64_t> TensorBytes(engine::DType dtype, const std::vector<int64_t>& shape) {
  int64_t bytes = engine::ElementBytes(dtype);
  for (const int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Parameters that ask for another way of passing a tensor, which this server doesn't have: ignoring
// them would answer something else than was asked for.
template <typename Parameters>
void CheckParameters(const std::string& field, const Parameters& parameters,
                     Violations& violations) {
  for (const char* name : {"shared_memory_region", "shared_memory_byte_size",
                           "shared_memory_offset", "classification"}) {
    if (parameters.count(name) > 0) {
      violations.Add(absl::StrCat(field, ".parameters"), absl::StrCat(name, " isn't supported"));
    }
  }
}

// Bytes that aren't 0 or 1 are no booleans.
bool HoldsBooleans(const std::string& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0 || c == 1; });
}

std::optional<engine::Tensor> WrapRaw(int index, engine::DType dtype, std::vector<int64_t> shape,
                                      int64_t expected_bytes, std::string&& raw,
                                      Violations& violations) {
  const std::string field = absl::StrCat("raw_input_contents[", index, "]");
  if (static_cast<int64_t>(raw.size()) != expected_bytes) {
    violations.Add(field,
                   absl::StrCat("has ", raw.size(), " bytes; shape [", absl::StrJoin(shape, ", "),
                                "] of ", OipDatatype(dtype), " takes ", expected_bytes));
    return std::nullopt;
  }
  if (dtype == engine::DType::kBool && !HoldsBooleans(raw)) {
    violations.Add(field, "has bytes other than 0 and 1; BOOL allows no others");
    return std::nullopt;
  }
  auto owner = std::make_shared<std::string>(std::move(raw));
  return engine::Tensor::Wrap(dtype, std::move(shape), owner->data(), owner);
}

// The tensor of input `index`, its bytes moved out of `raw` unless that is null.
std::optional<engine::Tensor> DecodeInput(int index, const Input& input, std::string* raw,
                                          Violations& violations) {
  CheckParameters(absl::StrCat("inputs[", index, "]"), input.parameters(), violations);
  const auto dtype = ParseOipDatatype(input.datatype());
  if (!dtype) {
    violations.Add(InputField(index, "datatype"),
                   absl::StrCat("\"", input.datatype().substr(0, 32),
                                "\"; FP32, FP16, BF16, FP64, INT64, INT32, UINT8 and BOOL are "
                                "allowed"));
    return std::nullopt;
  }
  std::vector<int64_t> shape(input.shape().begin(), input.shape().end());
  if (shape.empty() || shape.size() > kMaxRank) {
    violations.Add(InputField(index, "shape"),
                   absl::StrCat("has ", shape.size(), " sizes; 1 to ", kMaxRank, " are allowed"));
    return std::nullopt;
  }
  const auto bytes = TensorBytes(*dtype, shape);
  if (!bytes) {
    violations.Add(InputField(index, "shape"),
                   absl::StrCat("[", absl::StrJoin(shape, ", "),
                                "] has a negative size or more elements than can be counted"));
    return std::nullopt;
  }
  if (raw == nullptr) {
    return DecodeTypedContents(InputField(index, "contents"), *dtype, std::move(shape),
                               input.contents(), violations);
  }
  return WrapRaw(index, *dtype, std::move(shape), *bytes, std::move(*raw), violations);
}

}  // namespace

int64_t DecodeVersion(const std::string& field, const std::string& version,
                      Violations& violations) {
  if (version.empty()) return 0;
  const bool digits =
      std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  int64_t number = 0;
  if (digits && absl::SimpleAtoi(version, &number) && number > 0) return number;
  violations.Add(field, absl::StrCat("\"", version.substr(0, 32),
                                     "\"; a positive number, or nothing for the newest, is "
                                     "allowed"));
  return 0;
}

absl::Status CheckRequestedOutputs(const inference::ModelInferRequest& message,
                                   const engine::PackageManifest& manifest) {
  Violations violations;
  std::set<std::string> seen;
  for (int i = 0; i < message.outputs_size(); ++i) {
    const std::string& name = message.outputs(i).name();
    const std::string field = absl::StrCat("outputs[", i, "].name");
    const bool known = std::any_of(manifest.outputs.begin(), manifest.outputs.end(),
                                   [&](const auto& spec) { return spec.name == name; });
    if (!known) {
      violations.Add(field, absl::StrCat("\"", name.substr(0, 64), "\" is no output of the model"));
    } else if (!seen.insert(name).second) {
      violations.Add(field, absl::StrCat("\"", name, "\" comes twice"));
    }
  }
  return violations.ToStatus();
}

absl::StatusOr<serving::InferRequest> DecodeInferRequest(inference::ModelInferRequest&& message,
                                                         const serving::CallContext& context) {
  Violations violations;
  serving::InferRequest request;
  request.context = context;
  CheckModelName("model_name", message.model_name(), violations);
  request.model = message.model_name();
  request.version = DecodeVersion("model_version", message.model_version(), violations);
  for (int i = 0; i < message.outputs_size(); ++i) {
    CheckParameters(absl::StrCat("outputs[", i, "]"), message.outputs(i).parameters(), violations);
  }
  if (message.inputs_size() > kMaxInputs) {
    violations.Add("inputs", absl::StrCat(message.inputs_size(), " came; at most ", kMaxInputs,
                                          " are allowed"));
    return violations.ToStatus();
  }

  const bool raw = message.raw_input_contents_size() > 0;
  if (raw && message.raw_input_contents_size() != message.inputs_size()) {
    violations.Add("raw_input_contents",
                   absl::StrCat(message.raw_input_contents_size(), " came for ",
                                message.inputs_size(), " inputs; one for each is allowed"));
    return violations.ToStatus();
  }
  for (int i = 0; i < message.inputs_size(); ++i) {
    const Input& input = message.inputs(i);
    if (raw && input.has_contents()) {
      violations.Add(InputField(i, "contents"),
                     "stands beside raw_input_contents; one of the two is allowed");
      continue;
    }
    auto tensor =
        DecodeInput(i, input, raw ? message.mutable_raw_input_contents(i) : nullptr, violations);
    if (tensor) request.inputs.emplace_back(input.name(), *std::move(tensor));
  }
  DEFORM_RETURN_IF_ERROR(violations.ToStatus());
  return request;
}

}  // namespace deform::rpc
