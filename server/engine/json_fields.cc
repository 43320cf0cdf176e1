#include "engine/json_fields.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace deform::engine {
namespace {

using nlohmann::json;

const json& EmptyObject() {
  static const json* const empty = new json(json::object());
  return *empty;
}

std::string ItemPath(const std::string& path, size_t index) {
  return absl::StrCat(path, "[", index, "]");
}

std::optional<int64_t> WholeNumber(const json& value, int64_t lowest, int64_t highest) {
  if (!value.is_number_integer()) return std::nullopt;
  // What only fits in 64 bits without a sign would wrap round.
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  const auto number = value.get<int64_t>();
  if (number < lowest || number > highest) return std::nullopt;
  return number;
}

}  // namespace

JsonFields::JsonFields(const json& value, std::string path, JsonFaults* faults)
    : value_(&value), path_(std::move(path)), faults_(faults) {
  if (!value.is_object()) {
    WrongType(path_, "an object", value);
    value_ = &EmptyObject();
  }
}

void JsonFields::RefuseOtherKeys() {
  for (const auto& item : value_->items()) {
    if (!known_.contains(item.key())) Fault(item.key(), "is not a known key");
  }
}

bool JsonFields::Has(std::string_view key) const { return value_->contains(std::string(key)); }

bool JsonFields::IsNull(std::string_view key) const {
  const auto found = value_->find(std::string(key));
  return found != value_->end() && found->is_null();
}

void JsonFields::AcceptAnything(std::string_view key) { Find(key); }

bool JsonFields::Boolean(std::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  WrongType(PathOf(key), "true or false", *value);
  return false;
}

std::string JsonFields::String(std::string_view key) {
  const json* value = Find(key);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  WrongType(PathOf(key), "a string", *value);
  return "";
}

int64_t JsonFields::Integer(std::string_view key, int64_t lowest, int64_t highest) {
  const json* value = Find(key);
  if (value == nullptr) return lowest;
  if (const auto number = WholeNumber(*value, lowest, highest)) return *number;
  WrongType(PathOf(key), absl::StrCat("a whole number from ", lowest, " to ", highest), *value);
  return lowest;
}

double JsonFields::Number(std::string_view key, double lowest, double highest) {
  const json* value = Find(key);
  if (value == nullptr) return lowest;
  if (!value->is_number()) {
    WrongType(PathOf(key), "a number", *value);
    return lowest;
  }
  const double number = value->get<double>();
  if (number >= lowest && number <= highest) return number;
  Fault(key, absl::StrCat("is ", number, ", must be ", lowest, " to ", highest));
  return lowest;
}

JsonFields JsonFields::Object(std::string_view key) {
  const json* value = Find(key);
  return JsonFields(value == nullptr ? EmptyObject() : *value, PathOf(key), faults_);
}

void JsonFields::Members(std::string_view key,
                         const std::function<void(const std::string& name, JsonFields)>& read) {
  const json* value = Find(key);
  if (value == nullptr) return;
  if (!value->is_object()) {
    WrongType(PathOf(key), "an object", *value);
    return;
  }
  for (const auto& item : value->items()) {
    read(item.key(),
         JsonFields(item.value(), absl::StrCat(PathOf(key), "[\"", item.key(), "\"]"), faults_));
  }
}

void JsonFields::Objects(std::string_view key, const std::function<void(JsonFields)>& read) {
  const json* array = FindArray(key);
  if (array == nullptr) return;
  for (size_t i = 0; i < array->size(); ++i)
    read(JsonFields((*array)[i], ItemPath(PathOf(key), i), faults_));
}

std::vector<std::string> JsonFields::Strings(std::string_view key) {
  const json* array = FindArray(key);
  std::vector<std::string> strings;
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const json& item = (*array)[i];
    if (item.is_string()) {
      strings.push_back(item.get<std::string>());
    } else {
      WrongType(ItemPath(PathOf(key), i), "a string", item);
    }
  }
  return strings;
}

std::vector<int64_t> JsonFields::Integers(std::string_view key, int64_t lowest, int64_t highest) {
  const json* array = FindArray(key);
  std::vector<int64_t> integers;
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const json& item = (*array)[i];
    if (const auto number = WholeNumber(item, lowest, highest)) {
      integers.push_back(*number);
    } else {
      WrongType(ItemPath(PathOf(key), i),
                absl::StrCat("a whole number from ", lowest, " to ", highest), item);
    }
  }
  return integers;
}

std::vector<double> JsonFields::Numbers(std::string_view key, size_t count) {
  const json* array = FindArray(key);
  std::vector<double> numbers(count, 0.0);
  if (array == nullptr) return numbers;
  if (array->size() != count) {
    Fault(key, absl::StrCat("has ", array->size(), " items, must have ", count));
    return numbers;
  }
  for (size_t i = 0; i < count; ++i) {
    const json& item = (*array)[i];
    if (item.is_number() && std::isfinite(item.get<double>())) {
      numbers[i] = item.get<double>();
    } else {
      WrongType(ItemPath(PathOf(key), i), "a finite number", item);
    }
  }
  return numbers;
}

std::string JsonFields::PathOf(std::string_view key) const {
  const absl::string_view name(key.data(), key.size());
  return path_.empty() ? std::string(key) : absl::StrCat(path_, ".", name);
}

void JsonFields::Fault(std::string_view key, std::string description) {
  faults_->Add(PathOf(key), std::move(description));
}

const json* JsonFields::Find(std::string_view key) {
  known_.emplace(key);
  const auto found = value_->find(std::string(key));
  if (found != value_->end()) return &*found;
  // An object that isn't one has had its fault already.
  if (value_ != &EmptyObject()) Fault(key, "is missing");
  return nullptr;
}

const json* JsonFields::FindArray(std::string_view key) {
  const json* value = Find(key);
  if (value == nullptr || value->is_array()) return value;
  WrongType(PathOf(key), "an array", *value);
  return nullptr;
}

void JsonFields::WrongType(const std::string& path, std::string_view wanted, const json& value) {
  // Scalars are shown, as they say more than their type; invalid UTF-8 can't be here, as the
  // parser refuses it.
  std::string got = value.is_primitive() ? value.dump() : value.type_name();
  if (got.size() > 80) got = value.type_name();
  faults_->Add(path, absl::StrCat("is ", got, ", must be ",
                                  absl::string_view(wanted.data(), wanted.size())));
}

size_t JsonFields::NameIndex(std::string_view key, const std::vector<std::string_view>& names) {
  const json* value = Find(key);
  if (value == nullptr) return 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (value->is_string() && value->get_ref<const std::string&>() == names[i]) return i;
  }
  WrongType(PathOf(key),
            absl::StrCat("one of ", absl::StrJoin(names, ", ",
                                                  [](std::string* out, std::string_view name) {
                                                    out->append(name);
                                                  })),
            *value);
  return 0;
}

}  // namespace deform::engine
