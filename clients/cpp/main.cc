#include "cli/console.h"
#include "cli/run.h"

int main(int argc, char** argv) {
  deform::client::Console console = deform::client::StandardConsole();
  return deform::client::Run(argc, argv, console);
}
