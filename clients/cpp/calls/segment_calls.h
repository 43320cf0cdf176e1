#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "calls/call_error.h"
#include "deform/segmentation/v1/segmentation.grpc.pb.h"

namespace deform::client {

struct SegmentCallOptions {
  int concurrency = 8;                               // calls in flight
  std::chrono::nanoseconds timeout{30'000'000'000};  // of one picture, retries included
  int max_attempts = 10;
};

// How one picture ended.
struct SegmentOutcome {
  segmentation::v1::SegmentRequest request;  // as sent; empty when there was nothing to send
  std::optional<segmentation::v1::SegmentResponse> response;
  CallError error;  // when there is no response
  base::Duration elapsed{};
};

// Sends many Segment calls, a bounded number at a time, over one completion queue.
class SegmentCalls {
 public:
  // `stub` and `clock` outlive this.
  SegmentCalls(segmentation::v1::Segmentation::StubInterface& stub, const base::Clock& clock,
               SegmentCallOptions options);

  // The request of picture `index`; an error ends that picture alone.
  using MakeRequest = std::function<absl::StatusOr<segmentation::v1::SegmentRequest>(size_t index)>;
  // Told once for each picture, in the order in which they end. The next call is on its way by
  // then, so this may take its time.
  using OnDone = std::function<void(size_t index, SegmentOutcome outcome)>;

  // Runs pictures 0 … count - 1 and returns when all have ended. Both functions are called from
  // several threads at once.
  void Run(size_t count, const MakeRequest& make_request, const OnDone& on_done);

 private:
  segmentation::v1::Segmentation::StubInterface& stub_;
  const base::Clock& clock_;
  SegmentCallOptions options_;
};

}  // namespace deform::client
