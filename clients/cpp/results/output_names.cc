#include "results/output_names.h"

#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace deform::client {

std::vector<std::string> NameOutputs(const std::vector<std::filesystem::path>& pictures) {
  std::map<std::string, int> users;
  for (const auto& picture : pictures) ++users[picture.stem().string()];
  std::set<std::string> taken;
  for (const auto& [stem, count] : users) taken.insert(stem);

  std::vector<std::string> names;
  names.reserve(pictures.size());
  std::map<std::string, int> named;
  for (const auto& picture : pictures) {
    const std::string stem = picture.stem().string();
    int& number = named[stem];
    std::string name = stem;
    for (++number; number > 1; ++number) {
      name = absl::StrCat(stem, "-", number);
      if (taken.insert(name).second) break;
    }
    names.push_back(name);
  }
  return names;
}

std::string OverlayFileName(std::string_view name) { return std::string(name) + ".overlay.png"; }

std::string IdMapFileName(std::string_view name) { return std::string(name) + ".ids.png"; }

std::string MaskFileName(std::string_view name, int id) {
  return std::string(name) + ".mask-" + std::to_string(id) + ".png";
}

bool IsResultFileName(std::string_view file_name) {
  const std::string name(file_name);
  if (absl::EndsWith(name, ".overlay.png") || absl::EndsWith(name, ".ids.png")) return true;
  constexpr std::string_view kMask = ".mask-";
  const size_t mask = name.rfind(kMask);
  if (mask == std::string::npos || !absl::EndsWith(name, ".png")) return false;
  const std::string id = name.substr(mask + kMask.size(), name.size() - 4 - mask - kMask.size());
  return !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace deform::client
