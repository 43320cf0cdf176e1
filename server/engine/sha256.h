#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace deform::engine {

// SHA-256 as 64 lower-case hexadecimal digits.
std::string Sha256(std::string_view bytes);

// SHA-256 of a file's bytes, read in pieces. NOT_FOUND or INTERNAL when it can't be read; the
// message holds no path.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace deform::engine
