#pragma once

#include <iosfwd>
#include <string>

namespace deform::app {

// Checks the packages that a server on `repository` would load, as a load does before it opens an
// artifact (manifest, sizes, SHA-256), and writes a line for each: "shapes/1: ok". False when one
// is at fault, or there is none.
bool CheckPackages(const std::string& repository, std::ostream& out);

}  // namespace deform::app
