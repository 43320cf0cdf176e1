#include "app/server_process.h"

#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/logging.h"

namespace deform::app {
namespace {

serving::Predictor::Options PredictorOptions(const Config& config) {
  return {.decode_limits = {.max_pixels = config.max_pixels},
          .batch_policy = {.max_batch = config.max_batch,
                           .max_queue_delay = config.max_queue_delay,
                           .capacity = static_cast<size_t>(config.queue_capacity)},
          .worker_threads = config.worker_threads,
          .decode_capacity = static_cast<size_t>(config.queue_capacity),
          .default_deadline = config.default_deadline,
          .longest_deadline = config.longest_deadline};
}

}  // namespace

ServerProcess::ServerProcess(Config config, std::string device, BuildFacts build,
                             std::unique_ptr<engine::ModelLoader> loader, base::Clock* clock)
    : config_(std::move(config)),
      clock_(clock),
      loader_(std::move(loader)),
      models_({.repository = config_.model_repository, .device = std::move(device)}, loader_.get(),
              &metrics_),
      predictor_(PredictorOptions(config_), &models_, clock, &metrics_),
      version_(build.version) {
  metrics_.BuildInfo(build.version, build.revision, build.torch, build.cuda).Set(1);
  metrics_.Draining().Set(0);
}

ServerProcess::~ServerProcess() {
  if (loading_thread_.joinable()) loading_thread_.join();
}

absl::Status ServerProcess::Start() {
  rpc::Server::Options grpc_options{.host = config_.grpc_address.host,
                                    .port = config_.grpc_address.port,
                                    .max_receive_bytes = config_.max_receive_bytes,
                                    .max_send_bytes = config_.max_send_bytes,
                                    .version = version_,
                                    .call_cancelled = {}};
  DEFORM_ASSIGN_OR_RETURN(grpc_server_,
                          rpc::Server::Start(grpc_options, &predictor_, clock_, &metrics_));
  http::AdminServer::Options admin_options{.host = config_.admin_address.host,
                                           .port = config_.admin_address.port};
  std::vector<const prometheus::Collectable*> metrics{&metrics_.registry(), &process_metrics_};
  if (loader_->metrics() != nullptr) metrics.push_back(loader_->metrics());
  DEFORM_ASSIGN_OR_RETURN(admin_server_,
                          http::AdminServer::Start(admin_options, std::move(metrics),
                                                   [this] { return WhyNotReady(); }));
  DEFORM_RETURN_IF_ERROR(WritePortsFile());
  base::Log(base::LogLevel::kInfo, "listening",
            {{"grpc_host", config_.grpc_address.host},
             {"grpc_port", int64_t{grpc_port()}},
             {"admin_host", config_.admin_address.host},
             {"admin_port", int64_t{admin_port()}}});

  models_.SetReadinessListener([this](const std::string& name, bool ready) {
    name.empty() ? grpc_server_->SetReady(ready) : grpc_server_->SetModelReady(name, ready);
  });
  loading_ = true;
  loading_thread_ = std::thread([this] { LoadModels(); });
  return absl::OkStatus();
}

void ServerProcess::LoadModels() {
  const absl::Status status = models_.LoadAll();
  if (status.ok()) {
    base::Log(
        base::LogLevel::kInfo, "loaded",
        {{"models", static_cast<int64_t>(models_.List().size())}, {"ready", models_.Ready()}});
  }
  std::lock_guard lock(mutex_);
  loading_ = false;
  load_status_ = status;
  changed_.notify_all();
}

absl::Status ServerProcess::RunUntilStopped() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_requested_ || !load_status_.ok(); });
  const absl::Status outcome = stop_requested_ ? absl::OkStatus() : load_status_;
  const base::TimePoint drained = clock_->Now() + config_.drain_delay;
  draining_ = true;
  lock.unlock();
  metrics_.Draining().Set(1);
  grpc_server_->StartDraining();

  if (outcome.ok()) {
    // Balancers find out that it isn't ready while it still answers.
    base::Log(base::LogLevel::kInfo, "draining");
    lock.lock();
    WaitFor(lock, drained, [] { return false; });
    lock.unlock();
  }
  const base::TimePoint end = clock_->Now() + config_.shutdown_grace;
  grpc_server_->Shutdown(config_.shutdown_grace);
  lock.lock();
  WaitFor(lock, end, [&] { return !loading_; });
  base::Log(base::LogLevel::kInfo, "stopped");
  return outcome;
}

template <typename Done>
void ServerProcess::WaitFor(std::unique_lock<std::mutex>& lock, base::TimePoint until, Done done) {
  while (!done() && clock_->Now() < until) clock_->WaitUntil(changed_, lock, until);
}

void ServerProcess::RequestStop(const std::string& why) {
  std::lock_guard lock(mutex_);
  if (stop_requested_) return;
  base::Log(base::LogLevel::kInfo, "stop_requested", {{"why", why}});
  stop_requested_ = true;
  changed_.notify_all();
}

bool ServerProcess::Loading() const {
  std::lock_guard lock(mutex_);
  return loading_;
}

std::string ServerProcess::WhyNotReady() const {
  {
    std::lock_guard lock(mutex_);
    if (draining_) return "draining";
  }
  if (models_.Ready()) return "";
  std::vector<std::string> reasons;
  for (const lifecycle::ModelStatus& model : models_.List()) {
    if (model.state == lifecycle::ModelState::kLoading) reasons.push_back(model.name + " loading");
    if (model.state == lifecycle::ModelState::kFailed) reasons.push_back(model.name + " failed");
  }
  return reasons.empty() ? "loading" : absl::StrJoin(reasons, "\n");
}

absl::Status ServerProcess::WritePortsFile() const {
  if (config_.ports_file.empty()) return absl::OkStatus();
  // Written aside and renamed: whoever sees the file can read all of it.
  const std::string aside = config_.ports_file + ".new";
  std::ofstream file(aside);
  file << "{\"grpc_port\": " << grpc_port() << ", \"admin_port\": " << admin_port() << "}\n";
  file.close();
  if (file && std::rename(aside.c_str(), config_.ports_file.c_str()) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError("ports_file: can't be written");
}

}  // namespace deform::app
