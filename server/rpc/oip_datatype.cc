#include "rpc/oip_datatype.h"

#include <utility>

namespace deform::rpc {
namespace {

using engine::DType;

constexpr std::pair<DType, const char*> kDatatypes[] = {
    {DType::kFloat32, "FP32"}, {DType::kFloat16, "FP16"}, {DType::kBFloat16, "BF16"},
    {DType::kFloat64, "FP64"}, {DType::kInt64, "INT64"},  {DType::kInt32, "INT32"},
    {DType::kUint8, "UINT8"},  {DType::kBool, "BOOL"},
};

}  // namespace

std::string OipDatatype(DType dtype) {
  for (const auto& [known, name] : kDatatypes) {
    if (known == dtype) return name;
  }
  return "";
}

std::optional<DType> ParseOipDatatype(std::string_view name) {
  for (const auto& [dtype, known] : kDatatypes) {
    if (name == known) return dtype;
  }
  return std::nullopt;
}

}  // namespace deform::rpc
