// Checks that every operator makes of its operands. Each throws c10::Error with a message that
// starts with the operator's name and says which operand is at fault, what it is and what it should
// be. Sizes may be symbolic; contents aren't read.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>

namespace deform::ops {

// `dimensions` names them, as in "(B, S, G, D)".
void check_rank(const char* op, const char* name, const at::Tensor& tensor, int64_t rank,
                const char* dimensions);
// One of the element types that the operators take.
void check_float(const char* op, const char* name, const at::Tensor& tensor);
// int32 or int64.
void check_index(const char* op, const char* name, const at::Tensor& tensor);
void check_device(const char* op, const char* name, const at::Tensor& tensor,
                  const at::Tensor& value);
void check_layout(const char* op, const char* name, const at::Tensor& tensor);
// `meaning` says where the expected size comes from.
void check_size(const char* op, const char* name, const at::Tensor& tensor, int64_t dimension,
                const c10::SymInt& expected, const char* meaning);
void check_positive(const char* op, const char* name, const at::Tensor& tensor, int64_t dimension,
                    const char* meaning);

// Whether DEFORM_VALIDATE asks for contents to be checked where that costs a transfer.
bool validate_requested();

}  // namespace deform::ops
