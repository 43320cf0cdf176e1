// SHA-256 (FIPS 180-4), for checksums of kernels in the cache and in an index: torch has none, and
// a library for it would be one more that a wheel has to find on its machine.
#pragma once

#include <string>
#include <string_view>

namespace deform::ops {

// The digest of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::string_view bytes);

}  // namespace deform::ops
