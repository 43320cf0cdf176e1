#pragma once

#include <string>

namespace deform::engine {

// True when the file at `path` is a shared library for this machine and holds every segment that
// its headers promise. The dynamic linker takes that for granted: it maps what isn't there, and
// the process dies of SIGBUS.
bool IsWholeSharedLibrary(const std::string& path);

}  // namespace deform::engine
