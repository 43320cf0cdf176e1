#include "cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

namespace deform::client {

Console StandardConsole() {
  Console console{std::cout, std::cerr};
  console.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  console.err_is_terminal = isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    console.err_columns = size.ws_col;
  }
  return console;
}

}  // namespace deform::client
