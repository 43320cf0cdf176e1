#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace deform::client {

// Opens a channel to HOST:PORT that takes answers of up to 64 MiB, what the server may send (gRPC's
// own limit is 4 MiB). Connecting happens with the first call.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

// Ends the call `timeout` from now.
void SetTimeout(grpc::ClientContext& context, std::chrono::nanoseconds timeout);

}  // namespace deform::client
