#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace deform::client {

// A name for the results of each picture, the stem of its file: "photos/street.jpg" gives "street".
// Files that share a stem get "-2", "-3", … in order; no two names are equal, and a file whose own
// stem is unique always keeps it.
std::vector<std::string> NameOutputs(const std::vector<std::filesystem::path>& pictures);

std::string OverlayFileName(std::string_view name);       // NAME.overlay.png
std::string IdMapFileName(std::string_view name);         // NAME.ids.png
std::string MaskFileName(std::string_view name, int id);  // NAME.mask-ID.png
// Whether a file is named as the client names its own results.
bool IsResultFileName(std::string_view file_name);

}  // namespace deform::client
