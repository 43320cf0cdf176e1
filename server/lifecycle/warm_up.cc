#include "lifecycle/warm_up.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace deform::lifecycle {
namespace {

using engine::DType;
using engine::Tensor;

template <typename T>
void FillWithOnes(Tensor& tensor) {
  T* const values = static_cast<T*>(tensor.mutable_data());
  for (int64_t i = 0; i < tensor.element_count(); ++i) values[i] = 1;
}

Tensor ConstantInput(const engine::TensorSpec& spec, int64_t batch) {
  std::vector<int64_t> shape = spec.shape;
  for (int64_t& size : shape) size = size < 0 ? batch : size;
  Tensor tensor = Tensor::Allocate(spec.dtype, std::move(shape));
  switch (spec.dtype) {
    // Integers and truth values are masks at the borders of packages: an empty mask would make the
    // network divide by the size of nothing.
    case DType::kInt64:
      FillWithOnes<int64_t>(tensor);
      break;
    case DType::kInt32:
      FillWithOnes<int32_t>(tensor);
      break;
    case DType::kUint8:
    case DType::kBool:
      FillWithOnes<uint8_t>(tensor);
      break;
    case DType::kFloat32:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat64:
      std::memset(tensor.mutable_data(), 0, tensor.bytes());
      break;
  }
  return tensor;
}

absl::Status RunOnce(engine::Model& model, int64_t batch) {
  std::vector<Tensor> inputs;
  for (const engine::TensorSpec& spec : model.inputs())
    inputs.push_back(ConstantInput(spec, batch));
  return model.Run(inputs).status();
}

}  // namespace

absl::Status WarmUp(engine::Model& model) {
  DEFORM_RETURN_IF_ERROR(RunOnce(model, 1));
  if (model.max_batch() == 1) return absl::OkStatus();
  return RunOnce(model, model.max_batch());
}

}  // namespace deform::lifecycle
