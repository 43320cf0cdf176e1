#include "serving/batch_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/error.h"
#include "support/fake_model.h"

namespace deform::serving {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using Answer = absl::StatusOr<BatchResult>;

// Rows of the fake network's input: each answered with its first element.
std::vector<engine::Tensor> Rows(std::vector<float> values) {
  const auto rows = static_cast<int64_t>(values.size());
  engine::Tensor x = engine::Tensor::Allocate(engine::DType::kFloat32, {rows, 2});
  for (int64_t row = 0; row < rows; ++row) {
    static_cast<float*>(x.mutable_data())[2 * row] = values[row];
    static_cast<float*>(x.mutable_data())[2 * row + 1] = -1.0f;
  }
  return {x};
}

std::vector<float> Values(const Answer& answer) {
  const engine::Tensor& y = answer.value().outputs.at(0);
  return {y.data_as<float>(), y.data_as<float>() + y.element_count()};
}

// A manual clock that tells until when somebody last waited: Advance alone wakes everybody, whether
// it would have been time or not.
class RecordingClock final : public base::Clock {
 public:
  base::TimePoint Now() const override { return manual_.Now(); }
  void WaitUntil(std::condition_variable& condition, std::unique_lock<std::mutex>& lock,
                 base::TimePoint deadline) override {
    waited_until_ = deadline;
    manual_.WaitUntil(condition, lock, deadline);
  }
  void Advance(base::Duration by) { manual_.Advance(by); }

  // Blocks until somebody waits for a time.
  base::TimePoint WaitedUntil() {
    manual_.AwaitTimedWaiters(1);
    return waited_until_;
  }

 private:
  base::ManualClock manual_;
  std::atomic<base::TimePoint> waited_until_{};
};

class BatchRunnerTest : public ::testing::Test {
 protected:
  void Start(batching::BatchPolicy policy) {
    auto model = std::make_shared<lifecycle::ServableModel>();
    model->name = "m";
    model->version = 1;
    model->model = std::make_unique<testing::FakeModel>(network_);
    runner_ = std::make_unique<BatchRunner>(model, policy, &clock_, &metrics_);
  }

  // Submits and expects it to be accepted.
  std::future<Answer> Submit(std::vector<float> values,
                             base::TimePoint deadline = base::TimePoint::max(),
                             base::CancellationPtr cancellation = nullptr) {
    auto promise = std::make_shared<std::promise<Answer>>();
    const absl::Status status = runner_->Submit(
        {.inputs = Rows(std::move(values)),
         .deadline = deadline,
         .cancellation = std::move(cancellation),
         .done = [promise](Answer answer) { promise->set_value(std::move(answer)); }});
    EXPECT_TRUE(status.ok()) << status;
    return promise->get_future();
  }

  // Submits and expects it to be refused, `done` uncalled.
  absl::Status Refused(std::vector<engine::Tensor> inputs,
                       base::TimePoint deadline = base::TimePoint::max(),
                       base::CancellationPtr cancellation = nullptr) {
    return runner_->Submit({.inputs = std::move(inputs),
                            .deadline = deadline,
                            .cancellation = std::move(cancellation),
                            .done = [](Answer) { ADD_FAILURE() << "done of a refused entry"; }});
  }

  // A request that is inside the network, at its closed gate: what comes after it has to queue.
  std::future<Answer> Occupy() {
    network_->CloseGate();
    auto answer = Submit({0});
    network_->WaitUntilRunning();
    return answer;
  }

  base::TimePoint In(int ms) const { return clock_.Now() + milliseconds(ms); }

  RecordingClock clock_;
  base::Metrics metrics_;
  std::shared_ptr<testing::FakeNetwork> network_ = std::make_shared<testing::FakeNetwork>();
  std::unique_ptr<BatchRunner> runner_;
};

TEST_F(BatchRunnerTest, ARequestAloneIsNotDelayed) {
  Start({.max_batch = 8, .max_queue_delay = hours(1)});
  Answer answer = Submit({7}).get();
  EXPECT_THAT(Values(answer), ElementsAre(7));
  EXPECT_EQ(answer->batch_size, 1);
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1));
}

TEST_F(BatchRunnerTest, ConcurrentRequestsAreJoinedAndEachGetsItsOwnRow) {
  Start({.max_batch = 8, .max_queue_delay = milliseconds(2)});
  auto first = Occupy();
  std::vector<std::future<Answer>> answers(32);
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (int i = client; i < 32; i += 8) answers[i] = Submit({100.0f + i});
    });
  }
  for (std::thread& client : clients) client.join();
  network_->OpenGate();
  for (int i = 0; i < 32; ++i) {
    Answer answer = answers[i].get();
    EXPECT_THAT(Values(answer), ElementsAre(100.0f + i));
    EXPECT_EQ(answer->batch_size, 8);
  }
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 8, 8, 8, 8));
}

TEST_F(BatchRunnerTest, FewerThanABatchWaitForTheirDelay) {
  Start({.max_batch = 8, .max_queue_delay = milliseconds(2)});
  auto first = Occupy();
  auto second = Submit({1});
  auto third = Submit({2});
  network_->OpenGate();
  EXPECT_TRUE(first.get().ok());
  EXPECT_EQ(clock_.WaitedUntil(), In(2));
  clock_.Advance(milliseconds(2));
  Answer answer = second.get();
  EXPECT_EQ(answer->batch_size, 2);
  EXPECT_EQ(answer->queue, milliseconds(2));
  EXPECT_THAT(Values(third.get()), ElementsAre(2));
}

TEST_F(BatchRunnerTest, TheRowsOfARequestStayTogether) {
  Start({.max_batch = 4, .max_queue_delay = {}});
  auto first = Occupy();
  auto three = Submit({1, 2, 3});
  auto two = Submit({4, 5});
  auto one = Submit({6});
  network_->OpenGate();
  EXPECT_THAT(Values(three.get()), ElementsAre(1, 2, 3));
  EXPECT_THAT(Values(two.get()), ElementsAre(4, 5));
  EXPECT_THAT(Values(one.get()), ElementsAre(6));
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 3, 3));
}

TEST_F(BatchRunnerTest, BatchesAreNoLargerThanTheNetworkTakes) {
  network_->max_batch = 2;
  Start({.max_batch = 8, .max_queue_delay = {}});
  auto first = Occupy();
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(Submit({1}));
  network_->OpenGate();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().ok());
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 2, 2));
}

TEST_F(BatchRunnerTest, ARequestLargerThanThePolicysBatchRunsAlone) {
  Start({.max_batch = 2, .max_queue_delay = {}});
  auto first = Occupy();
  auto one = Submit({1});
  auto five = Submit({2, 3, 4, 5, 6});
  network_->OpenGate();
  EXPECT_THAT(Values(five.get()), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 1, 5));
}

TEST_F(BatchRunnerTest, CancelledInTheQueueIsNeverRun) {
  Start({.max_batch = 8, .max_queue_delay = {}});
  auto first = Occupy();
  auto cancellation = std::make_shared<base::Cancellation>();
  auto cancelled = Submit({1}, base::TimePoint::max(), cancellation);
  auto other = Submit({2});
  cancellation->Cancel();
  network_->OpenGate();
  EXPECT_EQ(cancelled.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Values(other.get()), ElementsAre(2));
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 1));
  EXPECT_EQ(metrics_.DroppedTotal("m", "cancelled").Value(), 1);
}

TEST_F(BatchRunnerTest, ExpiredInTheQueueIsNeverRun) {
  Start({.max_batch = 8, .max_queue_delay = {}});
  auto first = Occupy();
  auto expired = Submit({1}, In(10));
  auto other = Submit({2}, In(11));
  clock_.Advance(milliseconds(10));
  network_->OpenGate();
  EXPECT_EQ(expired.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Values(other.get()), ElementsAre(2));
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 1));
  EXPECT_EQ(metrics_.DroppedTotal("m", "expired").Value(), 1);
}

TEST_F(BatchRunnerTest, ADeadlineIsNoticedWithoutTraffic) {
  Start({.max_batch = 8, .max_queue_delay = hours(1)});
  auto first = Occupy();
  auto a = Submit({1}, In(30));
  auto b = Submit({2}, In(20));
  auto c = Submit({3});
  network_->OpenGate();
  EXPECT_EQ(clock_.WaitedUntil(), In(20));
  clock_.Advance(milliseconds(20));
  EXPECT_EQ(b.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  clock_.Advance(milliseconds(10));
  EXPECT_EQ(a.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Values(c.get()), ElementsAre(3));  // alone now
  EXPECT_THAT(network_->batch_sizes(), ElementsAre(1, 1));
}

TEST_F(BatchRunnerTest, TooLateIsRefusedAtOnce) {
  Start({});
  auto cancellation = std::make_shared<base::Cancellation>();
  cancellation->Cancel();
  EXPECT_EQ(Refused(Rows({1}), clock_.Now()).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Refused(Rows({1}), base::TimePoint::max(), cancellation).code(),
            absl::StatusCode::kCancelled);
  runner_.reset();
  EXPECT_TRUE(network_->batches().empty());
  EXPECT_EQ(metrics_.DroppedTotal("m", "expired").Value(), 1);
  EXPECT_EQ(metrics_.DroppedTotal("m", "cancelled").Value(), 1);
}

TEST_F(BatchRunnerTest, AFullQueueSaysWhenToComeBack) {
  Start({.max_batch = 1, .max_queue_delay = {}, .capacity = 2});
  // The network is seen to take 300 ms a batch.
  auto first = Occupy();
  clock_.Advance(milliseconds(300));
  network_->Release();
  EXPECT_TRUE(first.get().ok());

  auto running = Submit({1});
  network_->WaitUntilRunning();
  EXPECT_TRUE(runner_->CheckRoom().ok());
  auto second = Submit({2});
  auto third = Submit({3});
  for (const absl::Status& status : {Refused(Rows({4})), runner_->CheckRoom()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    const auto details = base::GetErrorDetails(status);
    ASSERT_TRUE(details.has_value());
    EXPECT_EQ(details->reason, "QUEUE_FULL");
    EXPECT_EQ(details->retry_after, milliseconds(600));
  }
  EXPECT_EQ(metrics_.RefusedTotal("m", "queue_full").Value(), 2);
  network_->OpenGate();
  EXPECT_THAT(Values(third.get()), ElementsAre(3));
  EXPECT_TRUE(runner_->CheckRoom().ok());
}

TEST_F(BatchRunnerTest, WhatNobodyWaitsForKeepsNoPlaceWhileABatchRuns) {
  Start({.max_batch = 8, .max_queue_delay = {}, .capacity = 2});
  auto first = Occupy();
  auto cancellation = std::make_shared<base::Cancellation>();
  auto cancelled = Submit({1}, base::TimePoint::max(), cancellation);
  auto expired = Submit({2}, In(5));
  EXPECT_EQ(Refused(Rows({3})).code(), absl::StatusCode::kResourceExhausted);
  cancellation->Cancel();
  clock_.Advance(milliseconds(5));
  auto accepted = Submit({4});
  // Answered though the network has not moved.
  EXPECT_EQ(cancelled.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(expired.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  network_->OpenGate();
  EXPECT_THAT(Values(accepted.get()), ElementsAre(4));
}

TEST_F(BatchRunnerTest, AFailedRunAnswersEachOfItsBatchAndNoOther) {
  network_->SetOutputs([](absl::Span<const engine::Tensor> inputs)
                           -> testing::FakeNetwork::OutputsFunction::result_type {
    if (inputs[0].shape()[0] == 2) return absl::InternalError("broken");
    return std::vector<engine::Tensor>{engine::Tensor::Allocate(engine::DType::kFloat32, {1, 1})};
  });
  Start({.max_batch = 2, .max_queue_delay = {}});
  auto first = Occupy();
  auto a = Submit({1});
  auto b = Submit({2});
  auto c = Submit({3});
  network_->OpenGate();
  EXPECT_EQ(a.get().status(), absl::InternalError("broken"));
  EXPECT_EQ(b.get().status(), absl::InternalError("broken"));
  EXPECT_TRUE(c.get().ok());
}

TEST_F(BatchRunnerTest, OutputsThatLackRowsAreNotRead) {
  network_->SetOutputs([](absl::Span<const engine::Tensor>) {
    return std::vector<engine::Tensor>{engine::Tensor::Allocate(engine::DType::kFloat32, {1, 1})};
  });
  Start({});
  EXPECT_EQ(Submit({1, 2}).get().status().code(), absl::StatusCode::kInternal);
}

TEST_F(BatchRunnerTest, InputsThatDoNotFitAreRefusedBeforeTheyMeetOthers) {
  Start({.max_batch = 8, .max_queue_delay = {}});
  auto first = Occupy();
  auto good = Submit({1});
  const auto refused = [&](engine::DType dtype, std::vector<int64_t> shape) {
    return Refused({engine::Tensor::Allocate(dtype, std::move(shape))}).code();
  };
  EXPECT_EQ(refused(engine::DType::kFloat32, {1, 3}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(engine::DType::kFloat32, {0, 2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(engine::DType::kFloat32, {9, 2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(engine::DType::kFloat32, {2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused(engine::DType::kFloat64, {1, 2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused({}).code(), absl::StatusCode::kInvalidArgument);
  network_->OpenGate();
  EXPECT_THAT(Values(good.get()), ElementsAre(1));
}

TEST_F(BatchRunnerTest, TheDestructorRunsWhatWaits) {
  Start({.max_batch = 8, .max_queue_delay = hours(1)});
  auto first = Occupy();
  auto a = Submit({1});
  auto b = Submit({2});
  auto expired = Submit({3}, In(1));
  clock_.Advance(milliseconds(1));
  network_->OpenGate();
  runner_.reset();
  EXPECT_THAT(Values(a.get()), ElementsAre(1));
  EXPECT_THAT(Values(b.get()), ElementsAre(2));
  EXPECT_EQ(expired.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(network_->live_models(), 0);
}

TEST_F(BatchRunnerTest, ADoneMaySubmitAgain) {
  Start({});
  std::promise<float> second;
  const auto submit_again = [&](Answer answer) {
    EXPECT_TRUE(answer.ok());
    EXPECT_TRUE(runner_
                    ->Submit({.inputs = Rows({2}),
                              .done = [&](Answer again) { second.set_value(Values(again)[0]); }})
                    .ok());
  };
  ASSERT_TRUE(runner_->Submit({.inputs = Rows({1}), .done = submit_again}).ok());
  EXPECT_EQ(second.get_future().get(), 2);
}

TEST_F(BatchRunnerTest, CountsWhatItDoes) {
  Start({.max_batch = 4, .max_queue_delay = {}, .capacity = 64});
  EXPECT_EQ(metrics_.QueueCapacity("m").Value(), 64);
  auto first = Occupy();
  auto a = Submit({1});
  auto b = Submit({2, 3});
  EXPECT_EQ(metrics_.QueueDepth("m").Value(), 2);
  clock_.Advance(milliseconds(250));
  network_->OpenGate();
  EXPECT_EQ(a.get()->queue, milliseconds(250));
  EXPECT_EQ(first.get()->compute, milliseconds(250));
  runner_.reset();
  EXPECT_EQ(metrics_.QueueDepth("m").Value(), 0);
  EXPECT_EQ(metrics_.QueueCapacity("m").Value(), 0);
  EXPECT_DOUBLE_EQ(metrics_.DeviceBusySecondsTotal("cpu", "m").Value(), 0.25);
  const auto sizes = metrics_.BatchSize("m", "cpu").Collect().histogram;
  EXPECT_EQ(sizes.sample_count, 2u);
  EXPECT_EQ(sizes.sample_sum, 4);  // 1 and 3 rows
  const auto waits = metrics_.QueueWaitSeconds("m").Collect().histogram;
  EXPECT_EQ(waits.sample_count, 3u);
  EXPECT_DOUBLE_EQ(waits.sample_sum, 0.5);
}

}  // namespace
}  // namespace deform::serving
