#pragma once

#include "cli/console.h"

namespace deform::client {

// The whole program: reads the command line, opens the channel, runs the command. Gives the exit
// code.
int Run(int argc, const char* const* argv, Console& console);

}  // namespace deform::client
