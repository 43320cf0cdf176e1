#include "app/process_environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/logging.h"

namespace deform::app {

void EnsurePassiveOpenMp(char* const* argv) {
  constexpr char kVariable[] = "OMP_WAIT_POLICY";
  if (std::getenv(kVariable) != nullptr) return;
  setenv(kVariable, "PASSIVE", /*overwrite=*/0);
  execv("/proc/self/exe", argv);
  base::Log(base::LogLevel::kWarning, "openmp_spins",
            {{"message", std::string("can't start again: ") + std::strerror(errno)}});
}

}  // namespace deform::app
