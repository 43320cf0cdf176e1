#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/logging.h"
#include "deform/config/v1/config.pb.h"

namespace deform::app {

struct HostPort {
  std::string host;  // IPv6 without brackets
  int port = 0;      // 0: any that is free
};

// The settings in effect, all of them checked. docs/configuration.md says what each does.
struct Config {
  std::string model_repository;
  std::string device;      // "auto", "cpu" or "cuda:N"
  std::string op_library;  // empty: none
  HostPort grpc_address;
  HostPort admin_address;
  std::string ports_file;  // empty: none
  int max_batch = 0;
  base::Duration max_queue_delay{};
  int64_t queue_capacity = 0;
  base::Duration default_deadline{};
  base::Duration longest_deadline{};
  int64_t max_pixels = 0;
  int64_t max_receive_bytes = 0;
  int64_t max_send_bytes = 0;
  int worker_threads = 0;
  int intra_op_threads = 0;  // 0: OMP_NUM_THREADS where set, else the CPU share
  base::Duration drain_delay{};
  base::Duration shutdown_grace{};
  base::LogLevel log_level = base::LogLevel::kInfo;
};

// What unset settings depend on.
struct ConfigSurroundings {
  std::string binary_folder;  // of deform-server, for the default of op_library
  int cpu_share = 1;          // base::CpuShare()
};

// Fills in defaults and checks everything. INVALID_ARGUMENT names each faulty setting, one a line,
// and has them as field violations: a value out of range, a malformed address or device, a gRPC
// address beyond loopback without `insecure`.
absl::StatusOr<Config> ResolveConfig(const config::v1::ServerConfig& message,
                                     const ConfigSurroundings& surroundings);

// True for "localhost" and the addresses 127.0.0.0/8 and ::1.
bool IsLoopback(const std::string& host);

}  // namespace deform::app
