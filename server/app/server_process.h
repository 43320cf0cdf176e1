#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "app/config.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/process_metrics.h"
#include "engine/model_loader.h"
#include "http/admin_server.h"
#include "lifecycle/model_manager.h"
#include "rpc/server.h"
#include "serving/predictor.h"

namespace deform::app {

// What is known of this build, for deform_build_info and ServerMetadata.
struct BuildFacts {
  std::string version;
  std::string revision;
  std::string torch;
  std::string cuda;
};

// The parts of a server, wired together, and its life:
//
//   Start          ports open, not ready ("loading"); models load on a thread of their own
//   (all serve)    ready
//   RequestStop    from anywhere, once: RunUntilStopped goes on
//     drain_delay      not ready ("draining"), still serves
//     shutdown_grace   no new calls; accepted ones finish
//   RunUntilStopped returns
class ServerProcess {
 public:
  // device: "cpu" or "cuda:N", which config's may leave open. `clock` outlives the process.
  ServerProcess(Config config, std::string device, BuildFacts build,
                std::unique_ptr<engine::ModelLoader> loader, base::Clock* clock);
  // REQUIRES: Start was not called or RunUntilStopped returned. Waits for a load that goes on.
  ~ServerProcess();

  // Opens the ports, writes ports_file, begins to load. FAILED_PRECONDITION when a port can't be
  // opened or the file not be written; then nothing runs.
  absl::Status Start();

  // Blocks until RequestStop, or until loading finds no repository or no model in it; then drains
  // and shuts down. OK after RequestStop.
  absl::Status RunUntilStopped();

  // Thread-safe; later calls have no effect. why: a word for the log.
  void RequestStop(const std::string& why);

  // A load goes on that nothing can interrupt; the destructor would wait for it.
  bool Loading() const;

  int grpc_port() const { return grpc_server_->port(); }
  int admin_port() const { return admin_server_->port(); }

 private:
  void LoadModels();
  std::string WhyNotReady() const;
  absl::Status WritePortsFile() const;
  // Waits, by the clock, for `done` or until `until`. REQUIRES: `lock` holds mutex_.
  template <typename Done>
  void WaitFor(std::unique_lock<std::mutex>& lock, base::TimePoint until, Done done);

  const Config config_;
  base::Clock* const clock_;
  base::Metrics metrics_;
  base::ProcessMetrics process_metrics_;
  const std::unique_ptr<engine::ModelLoader> loader_;
  lifecycle::ModelManager models_;
  serving::Predictor predictor_;
  std::unique_ptr<rpc::Server> grpc_server_;
  std::unique_ptr<http::AdminServer> admin_server_;
  const std::string version_;
  std::thread loading_thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_requested_ = false;  // this and below: guarded by mutex_
  bool draining_ = false;
  bool loading_ = false;
  absl::Status load_status_;
};

}  // namespace deform::app
