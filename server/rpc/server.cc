#include "rpc/server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "rpc/health_service.h"
#include "rpc/inference_service.h"
#include "rpc/segmentation_service.h"

namespace deform::rpc {
namespace {

using std::chrono::milliseconds;

// Limits that hold whatever is configured. Connections are closed now and then so that clients
// behind a balancer spread out again; gRPC varies the age by a tenth of itself.
constexpr int kMaxConcurrentStreams = 256;
constexpr milliseconds kMinPingInterval = std::chrono::seconds(10);
constexpr milliseconds kKeepaliveTime = std::chrono::seconds(60);
constexpr milliseconds kKeepaliveTimeout = std::chrono::seconds(20);
constexpr milliseconds kMaxConnectionAge = std::chrono::minutes(10);
constexpr milliseconds kMaxConnectionAgeGrace = std::chrono::seconds(130);

std::string JoinHostPort(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos;
  return ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

void AddLimits(const Server::Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_receive_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(options.max_send_bytes));
  const auto add = [&](const char* name, milliseconds value) {
    builder.AddChannelArgument(name, static_cast<int>(value.count()));
  };
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  add(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingInterval);
  add(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTime);
  add(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeout);
  add(GRPC_ARG_MAX_CONNECTION_AGE_MS, kMaxConnectionAge);
  add(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, kMaxConnectionAgeGrace);
  // A port that somebody has is an error, not one to share.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

// The names that Health knows from the start.
std::vector<std::string> WholeServices() {
  return {"", segmentation::v1::Segmentation::service_full_name(),
          inference::GRPCInferenceService::service_full_name()};
}

}  // namespace

struct Server::State {
  State(const CallEnvironment& environment, const std::string& version)
      : segmentation(environment),
        inference(
            environment, version, [this] { return health.Serving(""); },
            [this] { return health.draining(); }) {}

  HealthService health;
  SegmentationService segmentation;
  InferenceService inference;
  int port = 0;
  std::unique_ptr<grpc::Server> server;  // goes first: it calls the services
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Options& options,
                                                      serving::Predictor* predictor,
                                                      base::Clock* clock, base::Metrics* metrics) {
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  const CallEnvironment environment = {.predictor = predictor,
                                       .clock = clock,
                                       .metrics = metrics,
                                       .max_send_bytes = options.max_send_bytes,
                                       .call_cancelled = options.call_cancelled};
  auto state = std::make_unique<State>(environment, options.version);
  for (const std::string& name : WholeServices()) state->health.SetServing(name, false);

  grpc::ServerBuilder builder;
  AddLimits(options, builder);
  const std::string address = JoinHostPort(options.host, options.port);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &state->port);
  builder.RegisterService(&state->health);
  builder.RegisterService(&state->segmentation);
  builder.RegisterService(&state->inference);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return base::MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("can't listen on ", address, " for gRPC"),
        {.reason = "PORT_NOT_OPENED", .field_violations = {}, .retry_after = std::nullopt});
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() { Shutdown(base::Duration::zero()); }

int Server::port() const { return state_->port; }

void Server::SetReady(bool ready) {
  for (const std::string& name : WholeServices()) state_->health.SetServing(name, ready);
}

void Server::SetModelReady(const std::string& name, bool ready) {
  state_->health.SetServing(absl::StrCat("models/", name), ready);
}

void Server::StartDraining() { state_->health.StartDraining(); }

void Server::Shutdown(base::Duration grace) {
  state_->health.EndWatches();
  state_->server->Shutdown(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
}

}  // namespace deform::rpc
