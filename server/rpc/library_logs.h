#pragma once

namespace deform::rpc {

// From now on what gRPC and protobuf log goes out as lines of base::Log (events `grpc_log`,
// `protobuf_log`) instead of as text of their own. Once, before either is used.
void RouteLibraryLogs();

}  // namespace deform::rpc
