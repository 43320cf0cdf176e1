#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deform::engine {

// Element types that packages use at their borders.
enum class DType { kFloat32, kFloat16, kBFloat16, kFloat64, kInt64, kInt32, kUint8, kBool };

// Size of one element in bytes.
int64_t ElementBytes(DType dtype);

// "float32" and so on, as package.json writes it.
std::string_view DTypeName(DType dtype);
absl::StatusOr<DType> ParseDType(std::string_view name);

// A dense row-major tensor in host memory. Copies share the bytes, which are not to be changed
// once a second copy exists. The torch-free currency between engine, pipeline and serving.
class Tensor {
 public:
  Tensor() = default;

  // Allocates uninitialised memory, aligned to 64 bytes.
  static Tensor Allocate(DType dtype, std::vector<int64_t> shape);

  // Wraps bytes owned by somebody else; `owner` keeps them alive. REQUIRES: `data` holds
  // ElementCount(shape) · ElementBytes(dtype) bytes.
  static Tensor Wrap(DType dtype, std::vector<int64_t> shape, void* data,
                     std::shared_ptr<void> owner);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t element_count() const;
  int64_t bytes() const { return element_count() * ElementBytes(dtype_); }

  const void* data() const { return data_; }
  void* mutable_data() { return data_; }
  template <typename T>
  const T* data_as() const {
    return static_cast<const T*>(data_);
  }

  // Row `index` of the first dimension, sharing memory: shape [A, B, C] gives [B, C].
  // REQUIRES: 0 <= index < shape()[0].
  Tensor Row(int64_t index) const;

  // Rows [begin, begin + count) of the first dimension, sharing memory: shape [count, …].
  // REQUIRES: 0 <= begin, begin + count <= shape()[0].
  Tensor Rows(int64_t begin, int64_t count) const;

 private:
  DType dtype_ = DType::kFloat32;
  std::vector<int64_t> shape_;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

// What a network takes or gives. A size of -1 is the batch.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
};

}  // namespace deform::engine
