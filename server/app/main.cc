#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "app/check_packages.h"
#include "app/command_line.h"
#include "app/process_environment.h"
#include "app/server_process.h"
#include "app/stop_signals.h"
#include "base/clock.h"
#include "base/cpu_share.h"
#include "base/error.h"
#include "base/logging.h"
#include "engine/aoti/aoti_loader.h"
#include "rpc/library_logs.h"

namespace deform::app {
namespace {

std::string BinaryFolder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string binary(path, length > 0 ? static_cast<size_t>(length) : 0);
  return binary.substr(0, binary.rfind('/'));
}

BuildFacts Facts() {
  return {.version = DEFORM_VERSION,
          .revision = DEFORM_REVISION,
          .torch = engine::TorchVersion(),
          .cuda = ""};
}

// Falling back to the CPU happens under "auto" alone.
absl::StatusOr<std::string> ChooseDevice(const std::string& wanted) {
  if (wanted == "cpu") return wanted;
  if (engine::CudaAvailable()) return wanted == "auto" ? "cuda:0" : wanted;
  if (wanted == "auto") return "cpu";
  return absl::FailedPreconditionError("device: this machine has no usable CUDA GPU");
}

// torch by itself takes every CPU it sees, whatever share of them is this process's.
void SetIntraOpThreads(int configured) {
  if (configured > 0) {
    engine::SetIntraOpThreads(configured);
  } else if (std::getenv("OMP_NUM_THREADS") == nullptr) {
    engine::SetIntraOpThreads(base::CpuShare());
  }
}

absl::Status Serve(const Config& config) {
  HoldStopSignals();
  rpc::RouteLibraryLogs();
  DEFORM_ASSIGN_OR_RETURN(std::string device, ChooseDevice(config.device));
  DEFORM_ASSIGN_OR_RETURN(std::unique_ptr<engine::ModelLoader> loader,
                          engine::MakeAotiLoader({.op_library = config.op_library}));
  SetIntraOpThreads(config.intra_op_threads);
  const BuildFacts facts = Facts();
  base::Log(base::LogLevel::kInfo, "starting",
            {{"version", facts.version},
             {"revision", facts.revision},
             {"torch", facts.torch},
             {"device", device},
             {"worker_threads", int64_t{config.worker_threads}},
             {"max_batch", int64_t{config.max_batch}}});
  base::SteadyClock clock;
  ServerProcess process(config, std::move(device), facts, std::move(loader), &clock);
  DEFORM_RETURN_IF_ERROR(process.Start());
  absl::Status status;
  {
    StopSignals signals(
        [&](int signal) { process.RequestStop(signal == SIGTERM ? "SIGTERM" : "SIGINT"); });
    status = process.RunUntilStopped();
  }
  if (process.Loading()) std::_Exit(status.ok() ? 0 : 1);
  return status;
}

int Main(int argc, char** argv) {
  const auto command = ParseCommandLine(
      argc, argv, {.binary_folder = BinaryFolder(), .cpu_share = base::CpuShare()});
  if (!command.ok()) {
    std::cerr << "deform-server: the configuration has faults\n"
              << command.status().message() << "\n";
    return 1;
  }
  switch (command->action) {
    case CommandLine::Action::kHelp:
      std::cout << command->help;
      return 0;
    case CommandLine::Action::kVersion:
      std::cout << "deform-server " << DEFORM_VERSION << " (" << DEFORM_REVISION << ", torch "
                << engine::TorchVersion() << ")\n";
      return 0;
    case CommandLine::Action::kCheck:
      return CheckPackages(command->config.model_repository, std::cout) ? 0 : 1;
    case CommandLine::Action::kServe:
      break;
  }
  base::SetLogLevel(command->config.log_level);
  EnsurePassiveOpenMp(argv);
  const absl::Status served = Serve(command->config);
  if (served.ok()) return 0;
  base::Log(base::LogLevel::kError, "failed", {{"message", std::string(served.message())}});
  return 1;
}

}  // namespace
}  // namespace deform::app

int main(int argc, char** argv) { return deform::app::Main(argc, argv); }
