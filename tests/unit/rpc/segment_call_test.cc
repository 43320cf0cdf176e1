#include <atomic>
#include <cstdio>
#include <future>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "unit/rpc/rpc_fixture.h"

namespace deform::rpc {
namespace {

namespace v1 = segmentation::v1;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

class SegmentCallTest : public RpcFixture {
 protected:
  // A call that is inside the network, at its closed gate.
  std::future<grpc::Status> Occupy() {
    loader_.network("shapes")->CloseGate();
    auto status = std::async(std::launch::async, [this] { return Segment(Request()); });
    loader_.network("shapes")->WaitUntilRunning();
    return status;
  }

  size_t CountSeries() {
    size_t series = 0;
    for (const auto& family : metrics_.registry().Collect()) series += family.metric.size();
    return series;
  }
};

TEST_F(SegmentCallTest, AnswersAPng) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::SegmentRequest request = Request();
  request.set_task(v1::TASK_INSTANCE);
  v1::SegmentResponse response;
  const grpc::Status status = Segment(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.width(), 6u);
  EXPECT_EQ(response.height(), 4u);
  EXPECT_EQ(response.model(), "shapes");
  EXPECT_EQ(response.version(), 3);
  EXPECT_EQ(response.times().batch_size(), 1u);
  ASSERT_EQ(response.segments_size(), 1);
  const v1::Segment& disk = response.segments(0);
  EXPECT_EQ(disk.label(), "disk");
  EXPECT_EQ(disk.category_id(), 7);
  EXPECT_EQ(disk.area(), 12);  // the left half of 6×4
  EXPECT_EQ(disk.box().x(), 0);
  EXPECT_EQ(disk.box().width(), 3);
  EXPECT_EQ(disk.box().height(), 4);
  // Column-major: 12 pixels inside, 12 outside, after a run of no zeros.
  EXPECT_EQ(disk.coco_rle().counts(), "0<<");
}

TEST_F(SegmentCallTest, EachTaskEchoesOptionsThatMayBeSentBack) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const std::pair<const char*, v1::Task> asked[] = {{"shapes", v1::TASK_INSTANCE},
                                                    {"shapes", v1::TASK_SEMANTIC},
                                                    {"shapes", v1::TASK_PANOPTIC},
                                                    {"boxes", v1::TASK_DETECTION}};
  for (const auto& [model, task] : asked) {
    v1::SegmentRequest request = Request(model);
    request.set_task(task);
    v1::SegmentResponse first;
    grpc::Status status = Segment(request, &first);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(first.task(), task);
    EXPECT_EQ(first.options().compat(), v1::COMPAT_DEFAULT);

    *request.mutable_options() = first.options();
    v1::SegmentResponse second;
    status = Segment(request, &second);
    ASSERT_TRUE(status.ok()) << v1::Task_Name(task) << ": " << status.error_message();
    EXPECT_EQ(first.options().SerializeAsString(), second.options().SerializeAsString());
  }
}

TEST_F(SegmentCallTest, TheEchoHoldsWhatWasAskedForAndElseThePackages) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::SegmentRequest request = Request();
  request.set_task(v1::TASK_PANOPTIC);
  request.mutable_options()->set_score_threshold(0.25f);
  request.mutable_options()->set_compat(v1::COMPAT_HF);
  v1::SegmentResponse response;
  ASSERT_TRUE(Segment(request, &response).ok());
  EXPECT_EQ(response.options().score_threshold(), 0.25f);
  EXPECT_EQ(response.options().mask_threshold(), 0.5f);
  EXPECT_EQ(response.options().overlap_mask_area_threshold(), 0.75f);
  EXPECT_FALSE(response.options().has_max_results());
  EXPECT_EQ(response.options().compat(), v1::COMPAT_HF);
  EXPECT_TRUE(response.has_id_map());
}

TEST_F(SegmentCallTest, ARequestIdComesBackOrIsMade) {
  ASSERT_NO_FATAL_FAILURE(Start());
  grpc::ClientContext named;
  named.AddMetadata("x-request-id", "order-66");
  ASSERT_TRUE(Segment(Request(), nullptr, &named).ok());
  EXPECT_EQ(named.GetServerInitialMetadata().find("x-request-id")->second, "order-66");

  grpc::ClientContext unnamed;
  ASSERT_TRUE(Segment(Request(), nullptr, &unnamed).ok());
  EXPECT_EQ(unnamed.GetServerInitialMetadata().find("x-request-id")->second.size(), 32u);

  grpc::ClientContext too_long;
  too_long.AddMetadata("x-request-id", std::string(129, 'x'));
  ASSERT_TRUE(Segment(Request(), nullptr, &too_long).ok());
  EXPECT_EQ(too_long.GetServerInitialMetadata().find("x-request-id")->second.size(), 32u);
}

TEST_F(SegmentCallTest, BadFieldsAreNamedInBadRequest) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::SegmentRequest request = Request();
  request.set_version(-1);
  request.set_task(static_cast<v1::Task>(42));
  const grpc::Status status = Segment(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const ReceivedDetails details(status);
  EXPECT_EQ(details.info.domain(), "deform");
  EXPECT_EQ(details.info.reason(), "INVALID_FIELD");
  EXPECT_EQ(details.field(0), "version");
  EXPECT_EQ(details.field(1), "task");
  EXPECT_EQ(metrics_.RequestsTotal("shapes", "_unknown", "Segment", "INVALID_ARGUMENT").Value(), 1);
}

TEST_F(SegmentCallTest, ThresholdsThatAreNoProbabilitiesAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Start());
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), -1.0f, 2.0f,
                            std::numeric_limits<float>::infinity()}) {
    v1::SegmentRequest request = Request();
    request.mutable_options()->set_score_threshold(value);
    const grpc::Status status = Segment(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(ReceivedDetails(status).field(), "options.score_threshold");
  }
}

TEST_F(SegmentCallTest, AnOptionThatTheTaskDoesNotUseIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::SegmentRequest request = Request();
  request.set_task(v1::TASK_SEMANTIC);
  request.mutable_options()->set_max_results(3);
  EXPECT_EQ(ReceivedDetails(Segment(request)).field(), "options.max_results");
  // Told when no task was named too, by the task that the package has.
  request = Request("boxes");
  request.mutable_options()->set_mask_encoding(v1::MASK_ENCODING_PNG);
  EXPECT_EQ(ReceivedDetails(Segment(request)).field(), "options.mask_encoding");
}

TEST_F(SegmentCallTest, BytesThatAreNoPictureAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Start());
  v1::SegmentRequest request = Request();
  request.set_encoded("no picture");
  const grpc::Status status = Segment(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReceivedDetails(status).info.reason(), "UNSUPPORTED_FORMAT");
}

TEST_F(SegmentCallTest, AnUnknownModelOrVersionIsNotFound) {
  ASSERT_NO_FATAL_FAILURE(Start());
  grpc::Status status = Segment(Request("shades"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReceivedDetails(status).info.reason(), "MODEL_NOT_FOUND");
  v1::SegmentRequest request = Request();
  request.set_version(2);
  EXPECT_EQ(Segment(request).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(SegmentCallTest, TenThousandModelNamesLeaveTheMetricsAsTheyAre) {
  ASSERT_NO_FATAL_FAILURE(Start());
  EXPECT_EQ(Segment(Request("first")).error_code(), grpc::StatusCode::NOT_FOUND);
  v1::SegmentRequest faulty = Request("first");
  faulty.set_version(-1);
  EXPECT_EQ(Segment(faulty).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const size_t series = CountSeries();

  ::testing::internal::CaptureStderr();  // eleven thousand lines of log
  std::vector<std::thread> clients;
  for (int seed = 0; seed < 10; ++seed) {
    clients.emplace_back([this, seed] {
      std::mt19937_64 random(seed);
      for (int i = 0; i < 1000; ++i) {
        v1::SegmentRequest request = Request("model-" + std::to_string(random()));
        EXPECT_EQ(Segment(request).error_code(), grpc::StatusCode::NOT_FOUND);
        if (i % 10 != 0) continue;
        request.set_version(-1);
        EXPECT_EQ(Segment(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(CountSeries(), series);
}

TEST_F(SegmentCallTest, AFullQueueTellsWhenToTryAgain) {
  serving::Predictor::Options options;
  options.batch_policy.capacity = 1;
  ASSERT_NO_FATAL_FAILURE(Start(options));
  std::future<grpc::Status> running = Occupy();
  auto waiting = std::async(std::launch::async, [this] { return Segment(Request()); });
  Await([&] { return metrics_.QueueDepth("shapes").Value() == 1; });

  grpc::ClientContext context;
  const grpc::Status status = Segment(Request(), nullptr, &context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const ReceivedDetails details(status);
  EXPECT_EQ(details.info.reason(), "QUEUE_FULL");
  ASSERT_TRUE(details.has_retry);
  const auto pushback = context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, context.GetServerTrailingMetadata().end());
  const auto& delay = details.retry.retry_delay();
  EXPECT_EQ(pushback->second, std::to_string(delay.seconds() * 1000 + delay.nanos() / 1'000'000));

  loader_.network("shapes")->OpenGate();
  EXPECT_TRUE(running.get().ok());
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(SegmentCallTest, ACallWithoutADeadlineGetsTheServers) {
  serving::Predictor::Options options;
  options.default_deadline = seconds(30);
  ASSERT_NO_FATAL_FAILURE(Start(options));
  std::future<grpc::Status> running = Occupy();
  auto waiting = std::async(std::launch::async, [this] { return Segment(Request()); });
  Await([&] { return metrics_.QueueDepth("shapes").Value() == 1; });
  clock_.Advance(seconds(31));
  loader_.network("shapes")->ForgetBatches();
  loader_.network("shapes")->OpenGate();
  running.get();
  const grpc::Status status = waiting.get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ReceivedDetails(status).info.reason(), "DEADLINE_EXCEEDED");
  EXPECT_TRUE(loader_.network("shapes")->batches().empty());
}

TEST_F(SegmentCallTest, TheClientsDeadlineCounts) {
  serving::Predictor::Options options;
  options.longest_deadline = hours(3);
  ASSERT_NO_FATAL_FAILURE(Start(options));
  std::future<grpc::Status> running = Occupy();
  auto waiting = std::async(std::launch::async, [this] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + hours(2));
    return Segment(Request(), nullptr, &context);
  });
  Await([&] { return metrics_.QueueDepth("shapes").Value() == 1; });
  clock_.Advance(hours(1));  // well beyond the server's own default
  EXPECT_EQ(metrics_.DroppedTotal("shapes", "expired").Value(), 0);
  clock_.Advance(hours(1) + minutes(10));  // gRPC rounds a deadline up on the wire
  loader_.network("shapes")->OpenGate();
  running.get();
  EXPECT_EQ(waiting.get().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(SegmentCallTest, WorkOfACancelledCallIsNotRun) {
  Server::Options options;
  std::atomic<int> cancellations_seen = 0;
  options.call_cancelled = [&] { ++cancellations_seen; };
  ASSERT_NO_FATAL_FAILURE(Start({}, options));
  std::future<grpc::Status> running = Occupy();
  loader_.network("shapes")->ForgetBatches();
  grpc::ClientContext context;
  auto cancelled =
      std::async(std::launch::async, [&] { return Segment(Request(), nullptr, &context); });
  Await([&] { return metrics_.QueueDepth("shapes").Value() == 1; });
  context.TryCancel();
  EXPECT_EQ(cancelled.get().error_code(), grpc::StatusCode::CANCELLED);
  // The client has its answer before the server has heard.
  Await([&] { return cancellations_seen == 1; });

  loader_.network("shapes")->OpenGate();
  EXPECT_TRUE(running.get().ok());
  Await([&] { return metrics_.RequestsInFlight("shapes").Value() == 0; });
  EXPECT_EQ(metrics_.DroppedTotal("shapes", "cancelled").Value(), 1);
  EXPECT_TRUE(loader_.network("shapes")->batches().empty());
}

TEST_F(SegmentCallTest, AMessageThatIsTooLargeIsRefused) {
  Server::Options options;
  options.max_receive_bytes = 1 << 20;
  ASSERT_NO_FATAL_FAILURE(Start({}, options));
  v1::SegmentRequest request = Request();
  request.set_encoded(std::string(1 << 20, 'x'));
  EXPECT_EQ(Segment(request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Segment(Request()).ok());
}

TEST_F(SegmentCallTest, AnAnswerThatIsTooLargeIsRefused) {
  Server::Options options;
  options.max_send_bytes = 64;
  ASSERT_NO_FATAL_FAILURE(Start({}, options));
  const grpc::Status status = Segment(Request());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReceivedDetails(status).info.reason(), "ANSWER_TOO_LARGE");
}

TEST_F(SegmentCallTest, ModelsAreListedAndDescribed) {
  ASSERT_NO_FATAL_FAILURE(Start());
  grpc::ClientContext list_context;
  v1::ListModelsResponse models;
  ASSERT_TRUE(stub_->ListModels(&list_context, {}, &models).ok());
  ASSERT_EQ(models.models_size(), 2);
  EXPECT_EQ(models.models(0).name(), "boxes");

  grpc::ClientContext get_context;
  v1::GetModelRequest request;
  request.set_name("shades");
  v1::GetModelResponse model;
  const grpc::Status status = stub_->GetModel(&get_context, request, &model);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReceivedDetails(status).info.reason(), "MODEL_NOT_FOUND");
}

}  // namespace
}  // namespace deform::rpc
