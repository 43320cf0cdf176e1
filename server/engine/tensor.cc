#include "engine/tensor.h"

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace deform::engine {
namespace {

struct DTypeFacts {
  DType dtype;
  std::string_view name;
  int64_t element_bytes;
};

// In the order of the enumeration.
constexpr std::array<DTypeFacts, 8> kDTypes = {{
    {DType::kFloat32, "float32", 4},
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kFloat64, "float64", 8},
    {DType::kInt64, "int64", 8},
    {DType::kInt32, "int32", 4},
    {DType::kUint8, "uint8", 1},
    {DType::kBool, "bool", 1},
}};

const DTypeFacts& Facts(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

constexpr size_t kAlignmentBytes = 64;  // a cache line, and the widest vector load

}  // namespace

int64_t ElementBytes(DType dtype) { return Facts(dtype).element_bytes; }

std::string_view DTypeName(DType dtype) { return Facts(dtype).name; }

absl::StatusOr<DType> ParseDType(std::string_view name) {
  for (const DTypeFacts& facts : kDTypes) {
    if (facts.name == name) return facts.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::string_view(name.data(), name.size()), "\" is not a dtype"));
}

Tensor Tensor::Allocate(DType dtype, std::vector<int64_t> shape) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  // aligned_alloc wants a multiple of the alignment; an empty tensor still gets memory of its own,
  // so that its data is never null.
  const size_t blocks = static_cast<size_t>(tensor.bytes()) / kAlignmentBytes + 1;
  void* memory = std::aligned_alloc(kAlignmentBytes, blocks * kAlignmentBytes);
  if (memory == nullptr) throw std::bad_alloc();
  tensor.data_ = memory;
  tensor.owner_ = std::shared_ptr<void>(memory, std::free);
  return tensor;
}

Tensor Tensor::Wrap(DType dtype, std::vector<int64_t> shape, void* data,
                    std::shared_ptr<void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (const int64_t size : shape_) count *= size;
  return count;
}

Tensor Tensor::Row(int64_t index) const {
  Tensor row = Rows(index, 1);
  row.shape_.erase(row.shape_.begin());
  return row;
}

Tensor Tensor::Rows(int64_t begin, int64_t count) const {
  Tensor rows = *this;
  rows.shape_.front() = 1;
  const int64_t row_bytes = rows.bytes();
  rows.shape_.front() = count;
  rows.data_ = static_cast<char*>(data_) + begin * row_bytes;
  return rows;
}

}  // namespace deform::engine
