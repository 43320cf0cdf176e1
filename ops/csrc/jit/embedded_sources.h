// The device code that this library was built from, as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace deform::ops {

// Name, as kernels include it, and text of each header in kernels/ that device code is made of, and
// of what stands in for the toolkit's and the system's headers.
const std::vector<std::pair<std::string, std::string>>& embedded_sources();

}  // namespace deform::ops
