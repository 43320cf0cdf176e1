#pragma once

#include <ostream>

namespace deform::client {

// Where a command writes: results on `out`, all else on `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  int err_columns = 80;  // width of the terminal
};

// The process's own standard streams.
Console StandardConsole();

}  // namespace deform::client
