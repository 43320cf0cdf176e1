#include "calls/segment_calls.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"
#include "calls/channel.h"
#include "fake_server.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using segmentation::v1::SegmentRequest;
using segmentation::v1::SegmentResponse;

class SegmentCallsTest : public testing::Test {
 protected:
  base::SteadyClock clock_;
  FakeServer server_;
  std::unique_ptr<segmentation::v1::Segmentation::Stub> stub_ =
      segmentation::v1::Segmentation::NewStub(OpenChannel(server_.address()));
};

TEST_F(SegmentCallsTest, KeepsAsManyCallsInFlightAsAskedAndNoMore) {
  constexpr int kConcurrency = 3;
  constexpr int kPictures = 20;
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0, answered = 0;
  server_.segmentation().OnSegment([&](const SegmentRequest&, SegmentResponse*) {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    // Nothing is answered before as many calls as were asked for are there.
    changed.wait(lock, [&] { return arrived >= kConcurrency; });
    ++answered;
    return grpc::Status::OK;
  });
  int started = 0, most = 0;
  const auto make_request = [&](size_t) {
    const std::lock_guard lock(mutex);
    most = std::max(most, ++started - answered);
    return SegmentRequest();
  };
  std::atomic<int> ended = 0;
  SegmentCallOptions options;
  options.concurrency = kConcurrency;
  SegmentCalls(*stub_, clock_, options)
      .Run(kPictures, make_request, [&](size_t, SegmentOutcome outcome) {
        EXPECT_TRUE(outcome.response.has_value());
        ++ended;
      });
  EXPECT_EQ(ended, kPictures);
  EXPECT_EQ(started, kPictures);
  EXPECT_EQ(most, kConcurrency);
}

TEST_F(SegmentCallsTest, EndsEveryPictureOnceEvenIfNoneCanBeSent) {
  std::vector<std::atomic<int>> ended(10);
  SegmentCalls(*stub_, clock_, {})
      .Run(
          ended.size(),
          [](size_t index) -> absl::StatusOr<SegmentRequest> {
            return absl::PermissionDeniedError(std::to_string(index));
          },
          [&](size_t index, SegmentOutcome outcome) {
            ++ended[index];
            EXPECT_EQ(outcome.error.code, absl::StatusCode::kPermissionDenied);
            EXPECT_EQ(outcome.error.message, std::to_string(index));
          });
  for (const auto& count : ended) EXPECT_EQ(count, 1);
}

TEST_F(SegmentCallsTest, GivesTheRequestBackWithTheAnswer) {
  server_.segmentation().OnSegment([](const SegmentRequest& request, SegmentResponse* response) {
    response->set_model(request.encoded() + "!");
    return grpc::Status::OK;
  });
  SegmentCalls(*stub_, clock_, {})
      .Run(
          5,
          [](size_t index) {
            SegmentRequest request;
            request.set_encoded(std::to_string(index));
            return request;
          },
          [&](size_t index, SegmentOutcome outcome) {
            ASSERT_TRUE(outcome.response.has_value());
            EXPECT_EQ(outcome.request.encoded(), std::to_string(index));
            EXPECT_EQ(outcome.response->model(), std::to_string(index) + "!");
          });
}

TEST_F(SegmentCallsTest, DoesNothingForNoPictures) {
  SegmentCalls(*stub_, clock_, {})
      .Run(
          0, [](size_t) { return SegmentRequest(); },
          [](size_t, SegmentOutcome) { FAIL() << "no picture can end"; });
}

}  // namespace
}  // namespace deform::client
