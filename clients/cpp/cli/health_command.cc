#include "cli/health_command.h"

#include <memory>

#include "calls/call_error.h"
#include "calls/channel.h"
#include "cli/exit_code.h"
#include "grpcpp/client_context.h"

namespace deform::client {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

std::string StatusText(const HealthCheckResponse& response) {
  return HealthCheckResponse::ServingStatus_Name(response.status());
}

// The exit code for a call that failed: the server answered something, or nothing at all.
int Fail(const grpc::Status& status, Console& console) {
  console.err << "error: " << ToText(ReadCallError(status)) << "\n";
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return kExitUnreachable;
    default:
      return kExitFailed;
  }
}

int Check(const HealthArguments& arguments, grpc::health::v1::Health::StubInterface& stub,
          Console& console) {
  HealthCheckRequest request;
  request.set_service(arguments.service);
  grpc::ClientContext context;
  SetTimeout(context, arguments.connection.timeout);
  HealthCheckResponse response;
  const grpc::Status status = stub.Check(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    response.set_status(HealthCheckResponse::SERVICE_UNKNOWN);
  } else if (!status.ok()) {
    return Fail(status, console);
  }
  console.out << StatusText(response) << "\n";
  return response.status() == HealthCheckResponse::SERVING ? kExitOk : kExitFailed;
}

int Watch(const HealthArguments& arguments, grpc::health::v1::Health::StubInterface& stub,
          Console& console) {
  HealthCheckRequest request;
  request.set_service(arguments.service);
  grpc::ClientContext context;
  const auto stream = stub.Watch(&context, request);
  HealthCheckResponse response;
  while (stream->Read(&response)) console.out << StatusText(response) << std::endl;
  const grpc::Status status = stream->Finish();
  // A server that ends the stream in good order has gone away all the same.
  return status.ok() ? kExitUnreachable : Fail(status, console);
}

}  // namespace

int RunHealth(const HealthArguments& arguments, grpc::health::v1::Health::StubInterface& stub,
              Console& console) {
  return arguments.watch ? Watch(arguments, stub, console) : Check(arguments, stub, console);
}

}  // namespace deform::client
