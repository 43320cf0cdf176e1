// Deadlines, cancellation, bounds and shutdown of the predictor.
#include <gmock/gmock.h>

#include "predictor_fixture.h"

namespace deform::serving {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;

class PredictorDeadlineTest : public PredictorFixture {
 protected:
  // Holds the one decoder: a picture that fails to decode is answered from there, and its answer
  // isn't taken until the returned promise is kept.
  std::promise<void> OccupyDecoder() {
    std::promise<void> inside, leave;
    auto entered = inside.get_future();
    predictor_->Segment(Request(EncodedPicture{"not a picture"}),
                        [&inside, wait = leave.get_future().share()](Segmented) {
                          inside.set_value();
                          wait.wait();
                        });
    entered.wait();
    return leave;
  }

  base::TimePoint In(int ms) const { return clock_.Now() + milliseconds(ms); }
  absl::StatusCode CodeOf(std::future<Segmented>& answer) { return answer.get().status().code(); }
};

TEST_F(PredictorDeadlineTest, TooLateOnArrivalIsRefused) {
  Start();
  auto cancellation = std::make_shared<base::Cancellation>();
  cancellation->Cancel();
  auto late = Segment(Request(EncodedPicture{"not a picture"}, clock_.Now()));
  auto cancelled =
      Segment(Request(EncodedPicture{"not a picture"}, base::TimePoint::max(), cancellation));
  EXPECT_EQ(CodeOf(late), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CodeOf(cancelled), absl::StatusCode::kCancelled);
  EXPECT_EQ(Requests("DEADLINE_EXCEEDED"), 1);
  EXPECT_EQ(Requests("CANCELLED"), 1);
}

TEST_F(PredictorDeadlineTest, WhatNobodyWaitsForIsNotDecoded) {
  Start({.worker_threads = 1});
  auto leave = OccupyDecoder();
  auto cancellation = std::make_shared<base::Cancellation>();
  // Decoding these would answer INVALID_ARGUMENT.
  auto late = Segment(Request(EncodedPicture{"not a picture"}, In(10)));
  auto cancelled =
      Segment(Request(EncodedPicture{"not a picture"}, base::TimePoint::max(), cancellation));
  clock_.Advance(milliseconds(10));
  cancellation->Cancel();
  leave.set_value();
  EXPECT_EQ(CodeOf(late), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CodeOf(cancelled), absl::StatusCode::kCancelled);
  EXPECT_EQ(metrics_.DroppedTotal("shapes", "expired").Value(), 1);
  EXPECT_EQ(metrics_.DroppedTotal("shapes", "cancelled").Value(), 1);
}

TEST_F(PredictorDeadlineTest, WhatNobodyWaitsForInTheQueueIsNotRun) {
  Start();
  auto first = Occupy();
  auto cancellation = std::make_shared<base::Cancellation>();
  auto late = Segment(Request(EncodedPicture{kRedPng}, In(10)));
  auto cancelled = Segment(Request(EncodedPicture{kRedPng}, In(1000), cancellation));
  AwaitQueued(2);
  clock_.Advance(milliseconds(10));
  cancellation->Cancel();
  network_->OpenGate();
  EXPECT_EQ(CodeOf(late), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CodeOf(cancelled), absl::StatusCode::kCancelled);
  EXPECT_TRUE(first.get().ok());
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1));
}

TEST_F(PredictorDeadlineTest, ADeadlineThatPassesInTheNetworkIsAnsweredAsSuch) {
  Start();
  network_->CloseGate();
  auto answer = Segment(Request(EncodedPicture{kRedPng}, In(10)));
  network_->WaitUntilRunning();
  clock_.Advance(milliseconds(10));
  network_->OpenGate();
  EXPECT_EQ(CodeOf(answer), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(metrics_.ImagesTotal("shapes").Value(), 0);
}

TEST_F(PredictorDeadlineTest, WithoutADeadlineTheDefaultApplies) {
  Start({.default_deadline = seconds(1), .longest_deadline = seconds(5)});
  auto first = Occupy();
  auto none = Segment(Request(EncodedPicture{kRedPng}));
  auto asked = Segment(Request(EncodedPicture{kRedPng}, In(1001)));
  AwaitQueued(2);
  clock_.Advance(seconds(1));
  network_->OpenGate();
  EXPECT_EQ(CodeOf(none), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CodeOf(asked), absl::StatusCode::kOk);
}

TEST_F(PredictorDeadlineTest, ADeadlineIsClippedToTheLongest) {
  Start({.default_deadline = seconds(1), .longest_deadline = seconds(5)});
  auto first = Occupy();
  auto patient = Segment(Request(EncodedPicture{kRedPng}, clock_.Now() + hours(1)));
  AwaitQueued(1);
  clock_.Advance(seconds(5));
  network_->OpenGate();
  EXPECT_EQ(CodeOf(patient), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(PredictorDeadlineTest, TooManyUndecodedPicturesAreRefused) {
  Start({.worker_threads = 1, .decode_capacity = 1});
  auto leave = OccupyDecoder();
  auto waiting = Segment(Request(EncodedPicture{kRedPng}));
  const absl::Status status = Segment(Request(EncodedPicture{kRedPng})).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(status), "QUEUE_FULL");
  EXPECT_TRUE(base::GetErrorDetails(status)->retry_after.has_value());
  EXPECT_EQ(metrics_.RefusedTotal("shapes", "decode_queue_full").Value(), 1);
  leave.set_value();
  EXPECT_EQ(CodeOf(waiting), absl::StatusCode::kOk);
}

TEST_F(PredictorDeadlineTest, AFullModelQueueRefusesBeforeDecoding) {
  Start({.batch_policy = {.max_batch = 8, .capacity = 1}});
  auto first = Occupy();
  auto second = Segment(Request(EncodedPicture{kRedPng}));
  AwaitQueued(1);
  const absl::Status status = Segment(Request(EncodedPicture{"not a picture"})).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Reason(status), "QUEUE_FULL");
  network_->OpenGate();
  EXPECT_EQ(CodeOf(second), absl::StatusCode::kOk);
}

TEST_F(PredictorDeadlineTest, DrainingRefusesTheNewAndFinishesTheAccepted) {
  Start();
  EXPECT_TRUE(predictor_->WaitIdle(clock_.Now()));
  auto accepted = Occupy();
  predictor_->StartDraining();
  EXPECT_EQ(metrics_.Draining().Value(), 1);
  const absl::Status status = Segment(Request(EncodedPicture{kRedPng})).get().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Reason(status), "DRAINING");
  EXPECT_EQ(metrics_.RefusedTotal("shapes", "draining").Value(), 1);
  EXPECT_FALSE(predictor_->WaitIdle(clock_.Now()));
  network_->OpenGate();
  EXPECT_TRUE(predictor_->WaitIdle(base::TimePoint::max()));
  EXPECT_EQ(CodeOf(accepted), absl::StatusCode::kOk);
}

TEST_F(PredictorDeadlineTest, WaitIdleGivesUpAtItsTime) {
  Start();
  auto accepted = Occupy();
  auto idle = std::async(std::launch::async, [&, until = clock_.Now() + seconds(3)] {
    return predictor_->WaitIdle(until);
  });
  clock_.AwaitTimedWaiters(1);
  clock_.Advance(seconds(3));
  EXPECT_FALSE(idle.get());
  network_->OpenGate();
  EXPECT_EQ(CodeOf(accepted), absl::StatusCode::kOk);
}

TEST_F(PredictorDeadlineTest, WhenIdleEveryDoneHasReturned) {
  Start();
  std::promise<void> inside;
  std::promise<void> leave;
  bool returned = false;
  predictor_->Segment(Request(EncodedPicture{kRedPng}), [&](Segmented) {
    inside.set_value();
    leave.get_future().wait();
    returned = true;
  });
  inside.get_future().wait();
  EXPECT_FALSE(predictor_->WaitIdle(clock_.Now()));
  leave.set_value();
  EXPECT_TRUE(predictor_->WaitIdle(base::TimePoint::max()));
  EXPECT_TRUE(returned);
}

TEST_F(PredictorDeadlineTest, TheDestructorFinishesWhatWasAccepted) {
  Start({.batch_policy = {.max_queue_delay = hours(1)}, .worker_threads = 1});
  auto in_network = Occupy();
  auto queued = Segment(Request(EncodedPicture{kRedPng}));
  AwaitQueued(1);
  auto leave = OccupyDecoder();
  auto undecoded = Segment(Request(EncodedPicture{kRedPng}));
  network_->OpenGate();
  leave.set_value();
  predictor_.reset();
  EXPECT_EQ(CodeOf(in_network), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(queued), absl::StatusCode::kOk);
  EXPECT_EQ(CodeOf(undecoded), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace deform::serving
