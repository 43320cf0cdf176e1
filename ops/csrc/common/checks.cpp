#include "common/checks.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>

#include "common/dtypes.h"

namespace deform::ops {

void check_rank(const char* op, const char* name, const at::Tensor& tensor, int64_t rank,
                const char* dimensions) {
  TORCH_CHECK(tensor.dim() == rank, op, ": ", name, " must have ", rank, " dimensions ", dimensions,
              ", but has ", tensor.dim(), ": ", tensor.sym_sizes());
}

void check_float(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(is_supported(tensor.scalar_type()), op, ": ", name, " must be ", kSupportedDtypes,
              ", but is ", tensor.scalar_type());
}

void check_index(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong, op, ": ", name,
              " must be int32 or int64, but is ", tensor.scalar_type());
}

void check_device(const char* op, const char* name, const at::Tensor& tensor,
                  const at::Tensor& value) {
  TORCH_CHECK(tensor.device() == value.device(), op, ": ", name, " must be on value's device, ",
              value.device(), ", but is on ", tensor.device());
}

void check_layout(const char* op, const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(tensor.layout() == at::kStrided, op, ": ", name, " must be a dense tensor, but is ",
              tensor.layout());
}

void check_size(const char* op, const char* name, const at::Tensor& tensor, int64_t dimension,
                const c10::SymInt& expected, const char* meaning) {
  TORCH_SYM_CHECK(tensor.sym_size(dimension).sym_eq(expected), op, ": ", name, " must have size ",
                  expected, " (", meaning, ") in dimension ", dimension, ", but has ",
                  tensor.sym_size(dimension), ": ", tensor.sym_sizes());
}

void check_positive(const char* op, const char* name, const at::Tensor& tensor, int64_t dimension,
                    const char* meaning) {
  TORCH_SYM_CHECK(tensor.sym_size(dimension).sym_ge(1), op, ": ", name, " must have at least 1 ",
                  meaning, " in dimension ", dimension, ", but has ", tensor.sym_size(dimension),
                  ": ", tensor.sym_sizes());
}

bool validate_requested() {
  const char* setting = std::getenv("DEFORM_VALIDATE");
  return setting != nullptr && std::strcmp(setting, "1") == 0;
}

}  // namespace deform::ops
