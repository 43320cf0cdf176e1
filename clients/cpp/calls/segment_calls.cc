#include "calls/segment_calls.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "calls/channel.h"
#include "calls/retry_budget.h"
#include "grpcpp/alarm.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"

namespace deform::client {
namespace {

using segmentation::v1::Segmentation;
using segmentation::v1::SegmentRequest;
using segmentation::v1::SegmentResponse;

// The pictures of one SegmentCalls::Run.
struct Batch {
  Segmentation::StubInterface& stub;
  const base::Clock& clock;
  const SegmentCallOptions& options;
  const SegmentCalls::MakeRequest& make_request;
  const SegmentCalls::OnDone& on_done;
  size_t count;
  grpc::CompletionQueue queue{};
  std::atomic<size_t> next{0};
  std::atomic<size_t> unfinished{0};

  // Starts the next picture that can be sent; reports those that can't.
  void StartNext();
  void Finish(size_t index, SegmentOutcome outcome);
};

// One picture on its way. Its address is the tag of whatever it waits for on the queue: the answer
// to an attempt, or the alarm before the next.
class PictureCall {
 public:
  PictureCall(Batch& batch, size_t index, SegmentRequest request)
      : batch_(batch),
        index_(index),
        start_(batch.clock.Now()),
        budget_(batch.clock, std::chrono::duration_cast<base::Duration>(batch.options.timeout),
                batch.options.max_attempts),
        request_(std::move(request)) {}

  void StartAttempt() {
    waits_for_alarm_ = false;
    context_ = std::make_unique<grpc::ClientContext>();
    SetTimeout(*context_, budget_.Remaining());
    response_.Clear();
    reader_ = batch_.stub.PrepareAsyncSegment(context_.get(), request_, &batch_.queue);
    reader_->StartCall();
    // Last: from here on another thread may be working on this.
    reader_->Finish(&response_, &status_, this);
  }

  // What it waited for came. True: the picture has ended.
  bool Proceed() {
    if (waits_for_alarm_) {
      StartAttempt();
      return false;
    }
    if (status_.ok()) return true;
    error_ = ReadCallError(status_);
    const auto delay = budget_.DelayAfter(error_);
    if (!delay) return true;
    waits_for_alarm_ = true;
    // Last: from here on another thread may be working on this.
    alarm_.Set(&batch_.queue, std::chrono::system_clock::now() + *delay, this);
    return false;
  }

  size_t index() const { return index_; }

  SegmentOutcome TakeOutcome() {
    SegmentOutcome outcome;
    outcome.request = std::move(request_);
    if (status_.ok()) {
      outcome.response = std::move(response_);
    } else {
      outcome.error = std::move(error_);
    }
    outcome.elapsed = batch_.clock.Now() - start_;
    return outcome;
  }

 private:
  Batch& batch_;
  size_t index_;
  base::TimePoint start_;
  RetryBudget budget_;
  SegmentRequest request_;
  bool waits_for_alarm_ = false;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientAsyncResponseReaderInterface<SegmentResponse>> reader_;
  grpc::Alarm alarm_;
  SegmentResponse response_;
  grpc::Status status_;
  CallError error_;
};

void Batch::StartNext() {
  for (size_t index = next++; index < count; index = next++) {
    absl::StatusOr<SegmentRequest> request = make_request(index);
    if (request.ok()) {
      (new PictureCall(*this, index, *std::move(request)))->StartAttempt();  // RunQueue deletes it
      return;
    }
    SegmentOutcome outcome;
    outcome.error = MakeCallError(request.status());
    Finish(index, std::move(outcome));
  }
}

void Batch::Finish(size_t index, SegmentOutcome outcome) {
  on_done(index, std::move(outcome));
  if (--unfinished == 0) queue.Shutdown();
}

void RunQueue(Batch& batch) {
  void* tag = nullptr;
  bool ok = false;  // always true for answers; false for an alarm means cancelled, which none is
  while (batch.queue.Next(&tag, &ok)) {
    auto* call = static_cast<PictureCall*>(tag);
    if (!call->Proceed()) continue;
    const std::unique_ptr<PictureCall> ended(call);
    const size_t index = ended->index();
    SegmentOutcome outcome = ended->TakeOutcome();
    batch.StartNext();
    batch.Finish(index, std::move(outcome));
  }
}

}  // namespace

SegmentCalls::SegmentCalls(Segmentation::StubInterface& stub, const base::Clock& clock,
                           SegmentCallOptions options)
    : stub_(stub), clock_(clock), options_(options) {}

void SegmentCalls::Run(size_t count, const MakeRequest& make_request, const OnDone& on_done) {
  if (count == 0) return;
  Batch batch{stub_, clock_, options_, make_request, on_done, count};
  batch.unfinished = count;
  const size_t lanes = std::min<size_t>(std::max(1, options_.concurrency), count);
  for (size_t lane = 0; lane < lanes; ++lane) batch.StartNext();

  // Whoever takes an answer off the queue also works on it, so as many threads as cores.
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, lanes);
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back([&batch] { RunQueue(batch); });
  RunQueue(batch);
  for (std::thread& thread : others) thread.join();
}

}  // namespace deform::client
