#pragma once

namespace deform::app {

// Makes sure that OMP_WAIT_POLICY is PASSIVE, unless it is set: OpenMP's threads then sleep while
// they wait for work instead of spinning on CPUs that decoding and other models need (2 to 8 times
// faster under load). OpenMP reads it while it is being loaded, before main, so this starts the
// program again, as the same process, and returns the second time; or, with a line in the log, when
// that can't be done. REQUIRES: no thread has been started.
void EnsurePassiveOpenMp(char* const* argv);

}  // namespace deform::app
