#include "engine/model.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace deform::engine {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// As ShapeText, with the batch spelled out.
std::string SpecShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[",
                      absl::StrJoin(shape, ", ",
                                    [](std::string* out, int64_t size) {
                                      size < 0 ? absl::StrAppend(out, "batch")
                                               : absl::StrAppend(out, size);
                                    }),
                      "]");
}

std::string DTypeText(DType dtype) { return std::string(DTypeName(dtype)); }

absl::Status CheckInput(const TensorSpec& spec, int max_batch, const Tensor& input) {
  if (input.dtype() != spec.dtype) {
    return base::InvalidField(spec.name, absl::StrCat("its dtype is ", DTypeText(input.dtype()),
                                                      ", it must be ", DTypeText(spec.dtype)));
  }
  if (input.shape().size() != spec.shape.size()) {
    return base::InvalidField(
        spec.name,
        absl::StrCat("its shape is ", ShapeText(input.shape()), " of rank ", input.shape().size(),
                     ", it must be ", SpecShapeText(spec.shape), " of rank ", spec.shape.size()));
  }
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    const int64_t size = input.shape()[axis];
    if (spec.shape[axis] < 0) {
      if (size < 1 || size > max_batch) {
        return base::InvalidField(
            spec.name, absl::StrCat("its batch is ", size, ", it must be 1 to ", max_batch));
      }
    } else if (size != spec.shape[axis]) {
      return base::InvalidField(
          spec.name, absl::StrCat("its shape is ", ShapeText(input.shape()), ", it must be ",
                                  SpecShapeText(spec.shape)));
    }
  }
  if (input.data() == nullptr) return base::InvalidField(spec.name, "it holds no data");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInputs(const std::vector<TensorSpec>& specs, int max_batch,
                         absl::Span<const Tensor> inputs) {
  if (inputs.size() != specs.size()) {
    return base::InvalidField(
        "inputs",
        absl::StrCat("there are ", inputs.size(), ", there must be ", specs.size(), ": ",
                     absl::StrJoin(specs, ", ", [](std::string* out, const TensorSpec& spec) {
                       absl::StrAppend(out, spec.name);
                     })));
  }
  int64_t batch = -1;
  const TensorSpec* batch_owner = nullptr;
  for (size_t i = 0; i < specs.size(); ++i) {
    DEFORM_RETURN_IF_ERROR(CheckInput(specs[i], max_batch, inputs[i]));
    for (size_t axis = 0; axis < specs[i].shape.size(); ++axis) {
      if (specs[i].shape[axis] >= 0) continue;
      const int64_t size = inputs[i].shape()[axis];
      if (batch < 0) {
        batch = size;
        batch_owner = &specs[i];
      } else if (size != batch) {
        return base::InvalidField(
            specs[i].name, absl::StrCat("its batch is ", size, ", that of `", batch_owner->name,
                                        "` is ", batch, "; they must be the same"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace deform::engine
