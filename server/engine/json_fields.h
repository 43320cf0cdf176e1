#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "nlohmann/json_fwd.hpp"

namespace deform::engine {

// What is wrong with a JSON document, each fault with its path ("artifacts[0].file"; "" is the
// document itself).
class JsonFaults {
 public:
  void Add(std::string path, std::string description) {
    faults_.push_back({std::move(path), std::move(description)});
  }
  const std::vector<base::FieldViolation>& list() const { return faults_; }

 private:
  std::vector<base::FieldViolation> faults_;
};

// Reads the keys of one JSON object, adding to `faults` whatever isn't as asked for; a faulty key
// reads as an empty value, so that reading goes on and finds all faults. `value` and `faults`
// outlive the reader.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& value, std::string path, JsonFaults* faults);

  // Adds a fault for each key that nothing has asked for.
  void RefuseOtherKeys();

  bool Has(std::string_view key) const;
  bool IsNull(std::string_view key) const;
  // Marks the key as known, whatever it holds; it must be there.
  void AcceptAnything(std::string_view key);

  bool Boolean(std::string_view key);
  std::string String(std::string_view key);
  // A whole number in [lowest, highest].
  int64_t Integer(std::string_view key, int64_t lowest, int64_t highest);
  // A finite number in [lowest, highest].
  double Number(std::string_view key, double lowest, double highest);

  // The value beside the name that the key holds.
  template <typename T>
  T OneOf(std::string_view key, std::initializer_list<std::pair<std::string_view, T>> choices) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : choices) names.push_back(name);
    return (choices.begin() + NameIndex(key, names))->second;
  }

  JsonFields Object(std::string_view key);
  // Calls `read` for each member of the object at `key`, each of them an object.
  void Members(std::string_view key,
               const std::function<void(const std::string& name, JsonFields)>& read);
  // Calls `read` for each item of the array at `key`, each of them an object.
  void Objects(std::string_view key, const std::function<void(JsonFields)>& read);
  std::vector<std::string> Strings(std::string_view key);
  std::vector<int64_t> Integers(std::string_view key, int64_t lowest, int64_t highest);
  // An array of exactly `count` finite numbers; `count` numbers are returned in any case.
  std::vector<double> Numbers(std::string_view key, size_t count);

  std::string PathOf(std::string_view key) const;
  void Fault(std::string_view key, std::string description);

 private:
  const nlohmann::json* Find(std::string_view key);
  const nlohmann::json* FindArray(std::string_view key);
  void WrongType(const std::string& path, std::string_view wanted, const nlohmann::json& value);
  size_t NameIndex(std::string_view key, const std::vector<std::string_view>& names);

  const nlohmann::json* value_;
  std::string path_;
  JsonFaults* faults_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace deform::engine
