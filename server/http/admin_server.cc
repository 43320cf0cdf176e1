#include "http/admin_server.h"

#include <sys/socket.h>

#include <iterator>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "httplib.h"
#include "prometheus/text_serializer.h"

namespace deform::http {
namespace {

constexpr int kThreads = 4;
constexpr time_t kTimeoutSeconds = 5;  // of a slow client, which holds one of the threads
constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

std::string Serialize(const std::vector<const prometheus::Collectable*>& metrics) {
  std::vector<prometheus::MetricFamily> families;
  for (const prometheus::Collectable* part : metrics) {
    std::vector<prometheus::MetricFamily> collected = part->Collect();
    families.insert(families.end(), std::make_move_iterator(collected.begin()),
                    std::make_move_iterator(collected.end()));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace

struct AdminServer::State {
  httplib::Server server;
  int port = 0;
  std::thread thread;
};

AdminServer::AdminServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

AdminServer::~AdminServer() {
  state_->server.stop();
  state_->thread.join();
}

int AdminServer::port() const { return state_->port; }

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(
    const Options& options, std::vector<const prometheus::Collectable*> metrics,
    Readiness readiness) {
  auto state = std::make_unique<State>();
  httplib::Server& server = state->server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Every answer ends its connection: an idle one would hold a thread that a probe may need.
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(kTimeoutSeconds);
  server.set_write_timeout(kTimeoutSeconds);
  server.set_payload_max_length(0);
  // A port that somebody has is an error, not one to share.
  server.set_socket_options([](auto socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });

  server.Get("/metrics",
             [metrics = std::move(metrics)](const httplib::Request&, httplib::Response& response) {
               response.set_content(Serialize(metrics), kPrometheusText);
             });
  server.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", kText);
  });
  server.Get("/readyz", [readiness = std::move(readiness)](const httplib::Request&,
                                                           httplib::Response& response) {
    const std::string why_not = readiness();
    response.status = why_not.empty() ? 200 : 503;
    response.set_content(why_not.empty() ? "ready\n" : why_not + "\n", kText);
  });

  const bool opened = options.port == 0
                          ? (state->port = server.bind_to_any_port(options.host)) > 0
                          : server.bind_to_port(options.host, state->port = options.port);
  if (!opened) {
    return base::MakeError(
        absl::StatusCode::kFailedPrecondition,
        absl::StrCat("can't listen on ", options.host, ":", options.port, " for the admin port"),
        {.reason = "PORT_NOT_OPENED", .field_violations = {}, .retry_after = std::nullopt});
  }
  state->thread = std::thread([&server] { server.listen_after_bind(); });
  // Stopping it before it runs would be lost.
  while (!server.is_running()) std::this_thread::yield();
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(state)));
}

}  // namespace deform::http
