#include "app/config.h"

#include <arpa/inet.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "app/config_faults.h"
#include "google/protobuf/util/time_util.h"

namespace deform::app {
namespace {

using config::v1::ServerConfig;
using google::protobuf::util::TimeUtil;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr int64_t kMaxMessageBytes = std::numeric_limits<int32_t>::max();  // gRPC's own limit

// Reads settings one after the other and collects what is wrong with them.
class Resolver {
 public:
  explicit Resolver(ConfigFaults& faults) : faults_(faults) {}

  int64_t Number(const char* name, bool set, uint64_t value, int64_t default_value, int64_t least,
                 int64_t most) {
    if (!set) return default_value;
    const bool fits = value <= static_cast<uint64_t>(most) && static_cast<int64_t>(value) >= least;
    if (!fits) faults_.Add(name, absl::StrCat(value, "; ", least, " to ", most, " is allowed"));
    return fits ? static_cast<int64_t>(value) : default_value;
  }

  base::Duration Time(const char* name, bool set, const google::protobuf::Duration& value,
                      base::Duration default_value, base::Duration least, base::Duration most) {
    if (!set) return default_value;
    const base::Duration time = seconds(value.seconds()) + std::chrono::nanoseconds(value.nanos());
    if (time >= least && time <= most) return time;
    faults_.Add(name,
                absl::StrCat(Text(time), "; ", Text(least), " to ", Text(most), " is allowed"));
    return default_value;
  }

  HostPort Address(const char* name, const std::string& text) {
    absl::string_view host = text;
    const size_t colon = text.rfind(':');
    HostPort address;
    const bool port_fits = colon != std::string::npos &&
                           absl::SimpleAtoi(text.substr(colon + 1), &address.port) &&
                           address.port >= 0 && address.port <= 65535;
    host = host.substr(0, colon);
    const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    address.host = std::string(host);
    const bool host_fits =
        !host.empty() && (bracketed || address.host.find_first_of("[]:") == std::string::npos);
    if (port_fits && host_fits) return address;
    faults_.Add(name, absl::StrCat("\"", text,
                                   "\"; HOST:PORT is allowed, as in 127.0.0.1:8001 "
                                   "or [::1]:8001"));
    return {};
  }

 private:
  static std::string Text(base::Duration time) {
    return TimeUtil::ToString(TimeUtil::NanosecondsToDuration(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()));
  }

  ConfigFaults& faults_;
};

std::string ResolveDevice(const std::string& device, ConfigFaults& faults) {
  if (device == "auto" || device == "cpu") return device;
  if (device == "cuda") return "cuda:0";
  absl::string_view index = device;
  int number = 0;
  if (absl::ConsumePrefix(&index, "cuda:") && absl::SimpleAtoi(index, &number) && number >= 0) {
    return absl::StrCat("cuda:", number);
  }
  faults.Add("device", absl::StrCat("\"", device, "\"; auto, cpu, cuda or cuda:N is allowed"));
  return "cpu";
}

base::LogLevel ResolveLogLevel(const std::string& level, ConfigFaults& faults) {
  if (level == "debug") return base::LogLevel::kDebug;
  if (level == "info") return base::LogLevel::kInfo;
  if (level == "warning") return base::LogLevel::kWarning;
  if (level == "error") return base::LogLevel::kError;
  faults.Add("log_level",
             absl::StrCat("\"", level, "\"; debug, info, warning or error is allowed"));
  return base::LogLevel::kInfo;
}

}  // namespace

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  return std::memcmp(&v6, &in6addr_loopback, sizeof(v6)) == 0;
}

absl::StatusOr<Config> ResolveConfig(const ServerConfig& message,
                                     const ConfigSurroundings& surroundings) {
  ConfigFaults faults;
  Resolver resolver(faults);
  Config config;

  config.model_repository =
      message.has_model_repository() ? message.model_repository() : "model_repository";
  if (config.model_repository.empty()) faults.Add("model_repository", "is empty; name a folder");
  config.device = ResolveDevice(message.has_device() ? message.device() : "auto", faults);
  config.op_library = message.has_op_library()
                          ? message.op_library()
                          : absl::StrCat(surroundings.binary_folder, "/../lib/libdeform_ops.so");

  config.grpc_address = resolver.Address(
      "grpc_address", message.has_grpc_address() ? message.grpc_address() : "127.0.0.1:8001");
  config.admin_address = resolver.Address(
      "admin_address", message.has_admin_address() ? message.admin_address() : "127.0.0.1:8002");
  const HostPort& grpc = config.grpc_address;
  if (!grpc.host.empty() && !IsLoopback(grpc.host) && !message.insecure()) {
    faults.Add("grpc_address", absl::StrCat("\"", grpc.host,
                                            "\" is beyond loopback, where anybody "
                                            "may call and read along; set `insecure` to allow it"));
  }
  if (grpc.port != 0 && grpc.port == config.admin_address.port &&
      grpc.host == config.admin_address.host) {
    faults.Add("admin_address", "is the same as grpc_address; each needs a port of its own");
  }
  config.ports_file = message.ports_file();

  config.max_batch = static_cast<int>(
      resolver.Number("max_batch", message.has_max_batch(), message.max_batch(), 8, 1, 1024));
  config.max_queue_delay =
      resolver.Time("max_queue_delay", message.has_max_queue_delay(), message.max_queue_delay(),
                    milliseconds(2), milliseconds(0), seconds(10));
  config.queue_capacity =
      resolver.Number("queue_capacity", message.has_queue_capacity(), message.queue_capacity(),
                      16 * config.max_batch, 1, 1'000'000);
  config.default_deadline =
      resolver.Time("default_deadline", message.has_default_deadline(), message.default_deadline(),
                    seconds(30), milliseconds(1), hours(1));
  config.longest_deadline =
      resolver.Time("longest_deadline", message.has_longest_deadline(), message.longest_deadline(),
                    seconds(120), milliseconds(1), hours(1));
  if (config.default_deadline > config.longest_deadline) {
    faults.Add("default_deadline", "is longer than longest_deadline");
  }

  config.max_pixels = resolver.Number("max_pixels", message.has_max_pixels(), message.max_pixels(),
                                      50'000'000, 1, std::numeric_limits<int32_t>::max());
  config.max_receive_bytes =
      resolver.Number("max_receive_bytes", message.has_max_receive_bytes(),
                      message.max_receive_bytes(), 32 << 20, 1024, kMaxMessageBytes);
  config.max_send_bytes =
      resolver.Number("max_send_bytes", message.has_max_send_bytes(), message.max_send_bytes(),
                      64 << 20, 1024, kMaxMessageBytes);

  config.worker_threads = static_cast<int>(resolver.Number(
      "worker_threads", message.has_worker_threads(), message.worker_threads(), 0, 0, 1024));
  if (config.worker_threads == 0) config.worker_threads = surroundings.cpu_share;
  config.intra_op_threads = static_cast<int>(resolver.Number(
      "intra_op_threads", message.has_intra_op_threads(), message.intra_op_threads(), 0, 0, 1024));

  config.drain_delay = resolver.Time("drain_delay", message.has_drain_delay(),
                                     message.drain_delay(), seconds(10), seconds(0), hours(1));
  config.shutdown_grace =
      resolver.Time("shutdown_grace", message.has_shutdown_grace(), message.shutdown_grace(),
                    seconds(125), seconds(0), hours(1));
  config.log_level =
      ResolveLogLevel(message.has_log_level() ? message.log_level() : "info", faults);

  if (absl::Status status = faults.ToStatus(); !status.ok()) return status;
  return config;
}

}  // namespace deform::app
