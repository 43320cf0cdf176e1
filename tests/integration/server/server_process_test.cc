#include "app/server_process.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <sstream>
#include <string>
#include <thread>

#include "deform/segmentation/v1/segmentation.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "httplib.h"
#include "integration/server/fake_repository.h"
#include "nlohmann/json.hpp"
#include "support/fake_model.h"

namespace deform::app {
namespace {

namespace v1 = segmentation::v1;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using std::chrono::hours;
using std::chrono::seconds;

// A whole server but for its network and its main, with time that stands still. Its one model
// waits, loading, until let go.
class ServerProcessTest : public ::testing::Test {
 protected:
  ServerProcessTest() {
    config_.model_repository = repository_.path();
    config_.grpc_address = {"127.0.0.1", 0};
    config_.admin_address = {"127.0.0.1", 0};
    config_.max_batch = 8;
    config_.max_queue_delay = std::chrono::milliseconds(2);
    config_.queue_capacity = 16;
    config_.default_deadline = seconds(30);
    config_.longest_deadline = seconds(120);
    config_.max_pixels = 1'000'000;
    config_.max_receive_bytes = 1 << 20;
    config_.max_send_bytes = 1 << 20;
    config_.worker_threads = 2;
    config_.drain_delay = seconds(10);
    config_.shutdown_grace = seconds(125);
    auto loader = std::make_unique<testing::FakeModelLoader>();
    network_ = loader->network("shapes");
    network_->SetOutputs(testing::FindDiskOnTheLeft);
    network_->CloseGate();
    loader_ = std::move(loader);
  }

  ~ServerProcessTest() override {
    network_->OpenGate();
    if (run_.valid()) {
      process_->RequestStop("end of test");
      while (run_.wait_for(seconds(0)) != std::future_status::ready) {
        clock_.Advance(hours(1));
        std::this_thread::yield();
      }
    }
  }

  absl::Status Start() {
    process_ = std::make_unique<ServerProcess>(
        config_, "cpu", BuildFacts{.version = "1.2.3", .revision = "abc", .torch = "2", .cuda = ""},
        std::move(loader_), &clock_);
    const absl::Status started = process_->Start();
    if (!started.ok()) return started;
    run_ = std::async(std::launch::async, [this] { return process_->RunUntilStopped(); });
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(process_->grpc_port()),
                                   grpc::InsecureChannelCredentials());
    return started;
  }

  // The network's warm-up passes, and the model serves.
  void FinishLoading() {
    network_->OpenGate();
    while (Get("/readyz").first != 200) std::this_thread::yield();
  }

  std::pair<int, std::string> Get(const std::string& path) {
    httplib::Client client("127.0.0.1", process_->admin_port());
    const auto answer = client.Get(path);
    return answer ? std::pair(answer->status, answer->body) : std::pair(0, std::string());
  }

  HealthCheckResponse::ServingStatus Health(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const auto status =
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response);
    return status.ok() ? response.status() : HealthCheckResponse::UNKNOWN;
  }

  grpc::Status Segment() {
    grpc::ClientContext context;
    v1::SegmentRequest request;
    request.set_model("shapes");
    request.set_encoded(testing::kRedPng);
    v1::SegmentResponse response;
    return v1::Segmentation::NewStub(channel_)->Segment(&context, request, &response);
  }

  base::ManualClock clock_;
  testing::FakeRepository repository_;
  std::unique_ptr<engine::ModelLoader> loader_;
  std::shared_ptr<testing::FakeNetwork> network_;
  Config config_;
  std::unique_ptr<ServerProcess> process_;
  std::future<absl::Status> run_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ServerProcessTest, IsLiveWhileItLoadsAndReadyAfter) {
  repository_.AddSegmentationModel("shapes");
  ASSERT_TRUE(Start().ok());
  network_->WaitUntilRunning();  // the warm-up
  EXPECT_EQ(Get("/healthz").first, 200);
  EXPECT_EQ(Get("/readyz"), (std::pair<int, std::string>(503, "shapes loading\n")));
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("models/shapes"), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Segment().error_code(), grpc::StatusCode::UNAVAILABLE);

  FinishLoading();
  while (Health("") != HealthCheckResponse::SERVING) std::this_thread::yield();
  EXPECT_EQ(Health("models/shapes"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("deform.segmentation.v1.Segmentation"), HealthCheckResponse::SERVING);
  EXPECT_TRUE(Segment().ok());
}

TEST_F(ServerProcessTest, AModelThatFailsLeavesItUpAndNotReady) {
  repository_.AddSegmentationModel("shapes");
  repository_.Damage("shapes");
  ASSERT_TRUE(Start().ok());
  while (Get("/readyz").second != "shapes failed\n") std::this_thread::yield();
  EXPECT_EQ(Get("/healthz").first, 200);
  EXPECT_EQ(Segment().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(ServerProcessTest, ARepositoryWithoutModelsEndsItWithAnError) {
  ASSERT_TRUE(Start().ok());
  EXPECT_EQ(run_.get().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ServerProcessTest, DrainsServingThenFinishesWhatItAccepted) {
  repository_.AddSegmentationModel("shapes");
  ASSERT_TRUE(Start().ok());
  FinishLoading();
  process_->RequestStop("SIGTERM");
  while (Get("/readyz") != std::pair<int, std::string>(503, "draining\n")) {
    std::this_thread::yield();
  }
  while (Health("") != HealthCheckResponse::NOT_SERVING) std::this_thread::yield();
  EXPECT_EQ(Health("models/shapes"), HealthCheckResponse::NOT_SERVING);
  EXPECT_NE(Get("/metrics").second.find("deform_draining 1"), std::string::npos);
  EXPECT_TRUE(Segment().ok());

  network_->CloseGate();
  auto accepted = std::async(std::launch::async, [this] { return Segment(); });
  network_->WaitUntilRunning();
  clock_.Advance(seconds(10));  // the drain delay, after which it takes no more
  while (true) {
    const auto fresh =
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(process_->grpc_port()),
                                  grpc::InsecureChannelCredentials(), grpc::ChannelArguments());
    grpc::ClientContext context;
    HealthCheckResponse response;
    const auto status = grpc::health::v1::Health::NewStub(fresh)->Check(&context, {}, &response);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) break;
  }
  network_->OpenGate();
  EXPECT_TRUE(accepted.get().ok());
  EXPECT_TRUE(run_.get().ok());
}

TEST_F(ServerProcessTest, StopsWhileItLoads) {
  repository_.AddSegmentationModel("shapes");
  config_.drain_delay = seconds(0);
  config_.shutdown_grace = seconds(0);
  ASSERT_TRUE(Start().ok());
  network_->WaitUntilRunning();
  process_->RequestStop("SIGTERM");
  EXPECT_TRUE(run_.get().ok());
  EXPECT_TRUE(process_->Loading());
}

TEST_F(ServerProcessTest, ThePortsFileHoldsBothPorts) {
  repository_.AddSegmentationModel("shapes");
  config_.ports_file = repository_.path() + "/ports.json";
  ASSERT_TRUE(Start().ok());
  const auto ports = nlohmann::json::parse(std::ifstream(config_.ports_file));
  EXPECT_EQ(ports["grpc_port"], process_->grpc_port());
  EXPECT_EQ(ports["admin_port"], process_->admin_port());
  EXPECT_NE(process_->grpc_port(), process_->admin_port());
}

TEST_F(ServerProcessTest, APortThatIsTakenIsAnError) {
  httplib::Server other;
  config_.admin_address.port = other.bind_to_any_port("127.0.0.1");
  const absl::Status started = Start();
  EXPECT_EQ(started.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(started.message().find("admin"), absl::string_view::npos);
}

TEST_F(ServerProcessTest, APortsFileThatCannotBeWrittenIsAnError) {
  config_.ports_file = repository_.path() + "/missing/ports.json";
  EXPECT_EQ(Start().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ServerProcessTest, MetricsAreInPrometheusForm) {
  repository_.AddSegmentationModel("shapes");
  ASSERT_TRUE(Start().ok());
  FinishLoading();
  ASSERT_TRUE(Segment().ok());
  const auto [status, body] = Get("/metrics");
  EXPECT_EQ(status, 200);
  for (const char* line :
       {"# TYPE deform_requests_total counter", "# TYPE deform_stage_duration_seconds histogram",
        "deform_model_ready{model=\"shapes\",version=\"1\"} 1",
        "deform_stage_duration_seconds_count{model=\"shapes\",stage=\"encode\"} 1",
        "deform_draining 0", "version=\"1.2.3\"", "process_resident_memory_bytes"}) {
    EXPECT_NE(body.find(line), std::string::npos) << line;
  }
}

TEST_F(ServerProcessTest, TheAdminPortHasNothingElse) {
  repository_.AddSegmentationModel("shapes");
  ASSERT_TRUE(Start().ok());
  for (const char* path : {"/", "/metrics/", "/v1/segment", "/healthz/x", "/../etc/passwd"}) {
    EXPECT_EQ(Get(path).first, 404) << path;
  }
  httplib::Client client("127.0.0.1", process_->admin_port());
  EXPECT_GE(client.Post("/healthz", "x", "text/plain")->status, 400);
  EXPECT_EQ(Get("/healthz").first, 200);
}

}  // namespace
}  // namespace deform::app
