#include "rpc/typed_contents.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/oip_datatype.h"

namespace deform::rpc {
namespace {

using engine::DType;

int64_t CountElements(const inference::InferTensorContents& contents) {
  return int64_t{contents.bool_contents_size()} + contents.int_contents_size() +
         contents.int64_contents_size() + contents.uint_contents_size() +
         contents.uint64_contents_size() + contents.fp32_contents_size() +
         contents.fp64_contents_size() + contents.bytes_contents_size();
}

// Reads one typed field for a tensor of one shape.
class Reader {
 public:
  Reader(const std::string& field, DType dtype, std::vector<int64_t> shape, int64_t came,
         Violations& violations)
      : field_(field),
        dtype_(dtype),
        shape_(std::move(shape)),
        came_(came),
        violations_(violations) {}

  // `elements`: the field that fits; came: elements in all fields.
  template <typename Stored, typename Sent>
  std::optional<engine::Tensor> Read(const char* name,
                                     const google::protobuf::RepeatedField<Sent>& elements) {
    if (came_ != elements.size()) {
      violations_.Add(field_, absl::StrCat(OipDatatype(dtype_), " is to be in ", name,
                                           " alone; other fields have elements"));
      return std::nullopt;
    }
    int64_t expected = 1;
    for (const int64_t size : shape_) expected *= size;
    if (elements.size() != expected) {
      violations_.Add(
          absl::StrCat(field_, ".", name),
          absl::StrCat("has ", elements.size(), " elements; the shape takes ", expected));
      return std::nullopt;
    }
    const bool fits = std::all_of(elements.begin(), elements.end(), [](Sent element) {
      return static_cast<Sent>(static_cast<Stored>(element)) == element || element != element;
    });
    if (!fits) {
      violations_.Add(absl::StrCat(field_, ".", name),
                      absl::StrCat("has values that ", OipDatatype(dtype_), " doesn't"));
      return std::nullopt;
    }
    engine::Tensor tensor = engine::Tensor::Allocate(dtype_, std::move(shape_));
    std::copy(elements.begin(), elements.end(), static_cast<Stored*>(tensor.mutable_data()));
    return tensor;
  }

 private:
  const std::string& field_;
  const DType dtype_;
  std::vector<int64_t> shape_;
  const int64_t came_;
  Violations& violations_;
};

}  // namespace

std::optional<engine::Tensor> DecodeTypedContents(const std::string& field, DType dtype,
                                                  std::vector<int64_t> shape,
                                                  const inference::InferTensorContents& contents,
                                                  Violations& violations) {
  Reader reader(field, dtype, std::move(shape), CountElements(contents), violations);
  switch (dtype) {
    case DType::kFloat32:
      return reader.Read<float>("fp32_contents", contents.fp32_contents());
    case DType::kFloat64:
      return reader.Read<double>("fp64_contents", contents.fp64_contents());
    case DType::kInt64:
      return reader.Read<int64_t>("int64_contents", contents.int64_contents());
    case DType::kInt32:
      return reader.Read<int32_t>("int_contents", contents.int_contents());
    case DType::kUint8:
      return reader.Read<uint8_t>("uint_contents", contents.uint_contents());
    case DType::kBool:
      return reader.Read<bool>("bool_contents", contents.bool_contents());
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  violations.Add(field, absl::StrCat(OipDatatype(dtype), " goes into raw_input_contents alone"));
  return std::nullopt;
}

}  // namespace deform::rpc
