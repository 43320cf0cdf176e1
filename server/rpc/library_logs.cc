#include "rpc/library_logs.h"

#include <string>

#include "base/logging.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

namespace deform::rpc {
namespace {

void LogGrpc(gpr_log_func_args* line) {
  base::LogLevel level = base::LogLevel::kDebug;
  if (line->severity == GPR_LOG_SEVERITY_INFO) level = base::LogLevel::kInfo;
  if (line->severity == GPR_LOG_SEVERITY_ERROR) level = base::LogLevel::kWarning;
  base::Log(level, "grpc_log", {{"message", std::string(line->message)}});
}

// Its complaints are about what clients send, which their answers tell them.
void LogProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  base::Log(base::LogLevel::kDebug, "protobuf_log", {{"message", message}});
}

}  // namespace

void RouteLibraryLogs() {
  gpr_set_log_function(&LogGrpc);
  google::protobuf::SetLogHandler(&LogProtobuf);
}

}  // namespace deform::rpc
