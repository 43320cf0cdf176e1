#include <gmock/gmock.h>

#include "predictor_fixture.h"

namespace deform::serving {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using PredictorSegmentTest = PredictorFixture;

TEST_F(PredictorSegmentTest, AnEncodedPictureBecomesItsSegments) {
  Start();
  const Segmented answer = Segment(Request(EncodedPicture{kRedPng})).get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->model->version, 3);
  EXPECT_EQ(answer->options.task, engine::Task::kInstance);
  EXPECT_EQ(answer->options.score_threshold, 0.5f);
  EXPECT_EQ(answer->times.batch_size, 1);
  EXPECT_EQ(answer->result.width, 4);
  EXPECT_EQ(answer->result.height, 2);
  ASSERT_EQ(answer->result.segments.size(), 1u);
  const pipeline::Segment& segment = answer->result.segments[0];
  EXPECT_EQ(segment.label_id, 0);
  EXPECT_NEAR(segment.score, ScoreOfRed(255), 1e-3);
  EXPECT_EQ(segment.area, 4);
  ASSERT_TRUE(segment.mask.has_value());
  EXPECT_THAT(segment.mask->counts, ElementsAre(0, 4, 4));  // the left half, column by column
}

TEST_F(PredictorSegmentTest, RawRowsGiveTheAnswerOfTheEncodedPicture) {
  Start();
  const Segmented encoded = Segment(Request(EncodedPicture{kRedPng})).get();
  const Segmented raw = Segment(Request(OfRed(255))).get();
  ASSERT_TRUE(encoded.ok() && raw.ok());
  ASSERT_EQ(raw->result.segments.size(), 1u);
  EXPECT_EQ(raw->result.segments[0].score, encoded->result.segments[0].score);
  EXPECT_EQ(raw->result.segments[0].mask->counts, encoded->result.segments[0].mask->counts);
}

TEST_F(PredictorSegmentTest, ConcurrentPicturesShareBatchesAndKeepTheirAnswers) {
  Start({.batch_policy = {.max_batch = 8, .max_queue_delay = seconds(1)}});
  auto first = Occupy();
  std::vector<std::future<Segmented>> answers;
  for (int i = 0; i < 32; ++i) answers.push_back(Segment(Request(OfRed(8 * i))));
  AwaitQueued(32);
  network_->OpenGate();
  for (int i = 0; i < 32; ++i) {
    const Segmented answer = answers[i].get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->times.batch_size, 8);
    ASSERT_EQ(answer->result.segments.size(), 1u);
    EXPECT_NEAR(answer->result.segments[0].score, ScoreOfRed(8 * i), 1e-3);
  }
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 8, 8, 8, 8));
}

TEST_F(PredictorSegmentTest, OneBadPictureFailsAlone) {
  Start();
  auto bad = Segment(Request(EncodedPicture{kRedPng.substr(0, 50)}));
  auto good = Segment(Request(EncodedPicture{kRedPng}));
  const absl::Status status = bad.get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Field(status), "picture.encoded");
  EXPECT_TRUE(good.get().ok());
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1));
}

TEST_F(PredictorSegmentTest, ADifferentTaskAndOptionsTakeEffect) {
  Start();
  SegmentRequest strict = Request(EncodedPicture{kRedPng});
  strict.options.score_threshold = 0.995f;
  EXPECT_TRUE(Segment(strict).get()->result.segments.empty());
  SegmentRequest semantic = Request(EncodedPicture{kRedPng});
  semantic.task = engine::Task::kSemantic;
  const Segmented answer = Segment(semantic).get();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->result.id_map.has_value());
}

TEST_F(PredictorSegmentTest, FaultyOptionsAreRefusedWithoutDecoding) {
  Start();
  SegmentRequest request = Request(EncodedPicture{"not a picture"});
  request.options.score_threshold = 2.0f;
  EXPECT_EQ(Field(Segment(request).get().status()), "options.score_threshold");
  request.options = {};
  request.task = engine::Task::kPanoptic;
  EXPECT_EQ(Field(Segment(request).get().status()), "task");
  EXPECT_EQ(Requests("INVALID_ARGUMENT"), 2);
}

TEST_F(PredictorSegmentTest, AFailedRunIsAnswered) {
  Start();
  network_->SetOutputs([](auto) { return absl::InternalError("broken"); });
  EXPECT_EQ(Segment(Request(EncodedPicture{kRedPng})).get().status().code(),
            absl::StatusCode::kInternal);
  EXPECT_EQ(Requests("INTERNAL"), 1);
}

TEST_F(PredictorSegmentTest, RecordsWhatItDid) {
  Start();
  EXPECT_TRUE(Segment(Request(EncodedPicture{kRedPng})).get().ok());
  EXPECT_EQ(Requests("OK"), 1);
  EXPECT_EQ(metrics_.ImagesTotal("shapes").Value(), 1);
  EXPECT_EQ(metrics_.PixelsTotal("shapes").Value(), 8);
  EXPECT_EQ(metrics_.RequestsInFlight("shapes").Value(), 0);
  const auto count = [](prometheus::Histogram& histogram) {
    return histogram.Collect().histogram.sample_count;
  };
  EXPECT_EQ(count(metrics_.RequestDurationSeconds("shapes", "Segment")), 1u);
  for (const char* stage : {"decode", "preprocess", "queue", "compute", "postprocess"})
    EXPECT_EQ(count(metrics_.StageDurationSeconds("shapes", stage)), 1u) << stage;
}

TEST_F(PredictorSegmentTest, ARequestInTheNetworkIsInFlight) {
  Start();
  auto answer = Occupy();
  EXPECT_EQ(metrics_.RequestsInFlight("shapes").Value(), 1);
  clock_.Advance(seconds(2));
  network_->OpenGate();
  const Segmented segmented = answer.get();
  ASSERT_TRUE(segmented.ok());
  EXPECT_EQ(segmented->times.compute, seconds(2));
  EXPECT_EQ(metrics_.RequestsInFlight("shapes").Value(), 0);
  EXPECT_EQ(metrics_.RequestDurationSeconds("shapes", "Segment").Collect().histogram.sample_sum,
            2.0);
}

TEST_F(PredictorSegmentTest, UnknownModelsMakeNoSeries) {
  Start();
  const auto series = [&] {
    size_t count = 0;
    for (const auto& family : metrics_.registry().Collect()) count += family.metric.size();
    return count;
  };
  const auto ask = [&](const std::string& model, int64_t version) {
    SegmentRequest request = Request(EncodedPicture{kRedPng});
    request.model = model;
    request.version = version;
    return Segment(request).get().status();
  };
  const absl::Status status = ask("unicorn", 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(status), "MODEL_NOT_FOUND");
  const size_t before = series();
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(ask("m" + std::to_string(i), i).code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(ask("shapes", 100 + i).code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(series(), before);
  EXPECT_EQ(metrics_.RequestsTotal("_unknown", "_unknown", "Segment", "NOT_FOUND").Value(), 1001);
}

TEST_F(PredictorSegmentTest, WritesOneLineARequest) {
  Start();
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(Segment(Request(EncodedPicture{kRedPng})).get().ok());
  EXPECT_FALSE(Segment(Request(EncodedPicture{"not a picture"})).get().ok());
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
  EXPECT_THAT(log, HasSubstr(R"("event":"request")"));
  EXPECT_THAT(log, HasSubstr(R"("request_id":"r-1")"));
  EXPECT_THAT(log, HasSubstr(R"("code":"OK")"));
  EXPECT_THAT(log, HasSubstr(R"("reason":"UNSUPPORTED_FORMAT")"));
  EXPECT_THAT(log, HasSubstr(R"("batch_size":1)"));
}

}  // namespace
}  // namespace deform::serving
