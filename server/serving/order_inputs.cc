#include "serving/order_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"

namespace deform::serving {
namespace {

std::string Names(const std::vector<engine::TensorSpec>& specs) {
  return absl::StrJoin(specs, ", ", [](std::string* out, const engine::TensorSpec& spec) {
    out->append(spec.name);
  });
}

}  // namespace

absl::StatusOr<std::vector<engine::Tensor>> OrderInputs(
    const std::vector<engine::TensorSpec>& specs,
    std::vector<std::pair<std::string, engine::Tensor>> inputs) {
  std::vector<engine::Tensor> ordered(specs.size());
  std::vector<bool> came(specs.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = inputs[i].first;
    const auto spec = std::find_if(specs.begin(), specs.end(),
                                   [&](const engine::TensorSpec& s) { return s.name == name; });
    const std::string field = absl::StrCat("inputs[", i, "].name");
    if (spec == specs.end()) {
      return base::InvalidField(
          field, absl::StrCat("\"", name.substr(0, 64),
                              "\" is not an input of the model, which takes ", Names(specs)));
    }
    const size_t index = spec - specs.begin();
    if (came[index]) return base::InvalidField(field, absl::StrCat(spec->name, " came twice"));
    came[index] = true;
    ordered[index] = std::move(inputs[i].second);
  }
  for (size_t index = 0; index < specs.size(); ++index) {
    if (!came[index]) {
      return base::InvalidField(
          "inputs", absl::StrCat(specs[index].name, " is missing; the model takes ", Names(specs)));
    }
  }
  return ordered;
}

}  // namespace deform::serving
