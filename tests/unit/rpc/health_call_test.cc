#include <future>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/sync_stream.h"
#include "unit/rpc/rpc_fixture.h"

namespace deform::rpc {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using std::chrono::seconds;

class HealthCallTest : public RpcFixture {
 protected:
  void StartHealth() {
    ASSERT_NO_FATAL_FAILURE(Start());
    health_ = grpc::health::v1::Health::NewStub(channel_);
  }

  HealthCheckResponse::ServingStatus Check(const std::string& service) {
    grpc::ClientContext context;
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    const grpc::Status status = health_->Check(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      return HealthCheckResponse::SERVICE_UNKNOWN;
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> Watch(grpc::ClientContext& context,
                                                                 const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    return health_->Watch(&context, request);
  }

  static HealthCheckResponse::ServingStatus Next(grpc::ClientReader<HealthCheckResponse>& reader) {
    HealthCheckResponse response;
    EXPECT_TRUE(reader.Read(&response));
    return response.status();
  }

  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

TEST_F(HealthCallTest, NothingServesUntilSaidSo) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  for (const char* service :
       {"", "deform.segmentation.v1.Segmentation", "inference.GRPCInferenceService"}) {
    EXPECT_EQ(Check(service), HealthCheckResponse::NOT_SERVING) << service;
  }
  server_->SetReady(true);
  for (const char* service :
       {"", "deform.segmentation.v1.Segmentation", "inference.GRPCInferenceService"}) {
    EXPECT_EQ(Check(service), HealthCheckResponse::SERVING) << service;
  }
}

TEST_F(HealthCallTest, EachModelHasAHealthOfItsOwn) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  EXPECT_EQ(Check("models/shapes"), HealthCheckResponse::SERVICE_UNKNOWN);
  server_->SetModelReady("shapes", false);
  EXPECT_EQ(Check("models/shapes"), HealthCheckResponse::NOT_SERVING);
  server_->SetModelReady("shapes", true);
  EXPECT_EQ(Check("models/shapes"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
}

TEST_F(HealthCallTest, AWatchTellsEachChange) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  grpc::ClientContext context;
  const auto watch = Watch(context, "models/shapes");
  EXPECT_EQ(Next(*watch), HealthCheckResponse::SERVICE_UNKNOWN);
  server_->SetModelReady("shapes", false);
  EXPECT_EQ(Next(*watch), HealthCheckResponse::NOT_SERVING);
  server_->SetModelReady("shapes", false);  // no change, nothing to tell
  server_->SetModelReady("shapes", true);
  EXPECT_EQ(Next(*watch), HealthCheckResponse::SERVING);
  context.TryCancel();
  HealthCheckResponse response;
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(HealthCallTest, DrainingIsToldAndStays) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  server_->SetReady(true);
  server_->SetModelReady("shapes", true);
  grpc::ClientContext context;
  const auto watch = Watch(context, "");
  EXPECT_EQ(Next(*watch), HealthCheckResponse::SERVING);
  server_->StartDraining();
  EXPECT_EQ(Next(*watch), HealthCheckResponse::NOT_SERVING);
  server_->SetReady(true);  // a model that finishes loading changes nothing
  EXPECT_EQ(Check(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check("models/shapes"), HealthCheckResponse::NOT_SERVING);
  EXPECT_TRUE(Segment(Request()).ok());  // still serves
}

TEST_F(HealthCallTest, AnOpenWatchDoesNotHoldUpAShutdown) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  grpc::ClientContext context;
  const auto watch = Watch(context, "");
  EXPECT_EQ(Next(*watch), HealthCheckResponse::NOT_SERVING);
  server_->Shutdown(std::chrono::hours(1));  // would last as long if it did
  HealthCheckResponse response;
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(HealthCallTest, AcceptedCallsFinishDuringAShutdown) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  loader_.network("shapes")->CloseGate();
  auto accepted = std::async(std::launch::async, [this] { return Segment(Request()); });
  loader_.network("shapes")->WaitUntilRunning();
  auto shutdown =
      std::async(std::launch::async, [this] { server_->Shutdown(std::chrono::hours(1)); });
  // Once new calls are refused the shutdown is under way.
  Await([&] {
    const auto channel = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                                   grpc::InsecureChannelCredentials(), {});
    grpc::ClientContext context;
    HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel)
               ->Check(&context, {}, &response)
               .error_code() == grpc::StatusCode::UNAVAILABLE;
  });
  loader_.network("shapes")->OpenGate();
  const grpc::Status status = accepted.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  shutdown.get();
}

TEST_F(HealthCallTest, CallsLeftAfterTheGraceAreCancelled) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  loader_.network("shapes")->CloseGate();
  auto running = std::async(std::launch::async, [this] { return Segment(Request()); });
  loader_.network("shapes")->WaitUntilRunning();
  auto shutdown =
      std::async(std::launch::async, [this] { server_->Shutdown(base::Duration::zero()); });
  EXPECT_FALSE(running.get().ok());
  loader_.network("shapes")->OpenGate();
  shutdown.get();
}

TEST_F(HealthCallTest, APortThatIsTakenIsNotShared) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  Server::Options options;
  options.port = server_->port();
  const auto second = Server::Start(options, predictor_.get(), &clock_, &metrics_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(HealthCallTest, ReflectionListsTheServices) {
  ASSERT_NO_FATAL_FAILURE(StartHealth());
  // grpc.reflection.v1alpha.ServerReflectionRequest{list_services: ""}, by hand: field 7, empty.
  grpc::ClientContext context;
  const grpc::internal::RpcMethod method(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::internal::RpcMethod::BIDI_STREAMING);
  std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
          channel_.get(), method, &context));
  const grpc::Slice request("\x3a\x00", 2);
  ASSERT_TRUE(stream->Write(grpc::ByteBuffer(&request, 1)));
  grpc::ByteBuffer answer;
  ASSERT_TRUE(stream->Read(&answer));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  for (const char* service : {"deform.segmentation.v1.Segmentation",
                              "inference.GRPCInferenceService", "grpc.health.v1.Health"}) {
    EXPECT_NE(bytes.find(service), std::string::npos) << service;
  }
}

}  // namespace
}  // namespace deform::rpc
