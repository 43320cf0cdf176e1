#pragma once

#include "cli/command_line.h"
#include "cli/console.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace deform::client {

// `deform-client health [--watch] [SERVICE]`: prints SERVING, NOT_SERVING or SERVICE_UNKNOWN, with
// --watch at every change until the server goes away. Gives the exit code: 0 serving, 1 not, 2 no
// answer.
int RunHealth(const HealthArguments& arguments, grpc::health::v1::Health::StubInterface& stub,
              Console& console);

}  // namespace deform::client
