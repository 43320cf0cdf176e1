#include "serving/predictor.h"

#include <algorithm>

#include "base/error.h"
#include "base/worker_pool.h"
#include "batching/drop_reason.h"
#include "pipeline/preprocess.h"
#include "serving/batch_runner.h"
#include "serving/decode_pool.h"
#include "serving/drop_status.h"
#include "serving/in_flight.h"
#include "serving/order_inputs.h"
#include "serving/request_record.h"
#include "serving/runner_table.h"

namespace deform::serving {
namespace {

// One request on its way. Handed from thread to thread, used by one at a time.
template <typename Answer>
struct Call {
  Call(CallContext call_context, const std::string& model_name,
       std::function<void(absl::StatusOr<Answer>)> done, base::Clock* clock, base::Metrics* metrics)
      : context(std::move(call_context)),
        record(context, model_name, clock, metrics),
        done(std::move(done)) {}

  CallContext context;  // deadline: the one in effect, from Admit on
  RequestRecord record;
  std::function<void(absl::StatusOr<Answer>)> done;
  bool entered = false;  // counts in State::in_flight
  lifecycle::ModelHandle model;
  BatchRunner* runner = nullptr;
};

struct SegmentCall : Call<SegmentAnswer> {
  using Call::Call;
  std::variant<EncodedPicture, RawPicture> picture;  // until it is decoded
  pipeline::PostprocessOptions options;
  pipeline::PictureGeometry geometry;
};

using InferCall = Call<InferAnswer>;

absl::StatusOr<pipeline::Picture> Decode(const std::variant<EncodedPicture, RawPicture>& picture,
                                         const pipeline::DecodeLimits& limits) {
  if (const auto* raw = std::get_if<RawPicture>(&picture)) {
    return pipeline::CopyRawPicture(raw->rows, raw->width, raw->height, raw->row_stride_bytes,
                                    limits);
  }
  return pipeline::DecodePicture(std::get<EncodedPicture>(picture).bytes, limits);
}

}  // namespace

struct Predictor::State {
  State(const Options& options, lifecycle::ModelManager* models, base::Clock* clock,
        base::Metrics* metrics)
      : options(options),
        models(models),
        clock(clock),
        metrics(metrics),
        in_flight(clock),
        finishers(options.worker_threads),
        runners(options.batch_policy, clock, metrics),
        decoders(options.worker_threads, options.decode_capacity, clock) {}

  // The steps of the way, in its order.
  template <typename Answer>
  absl::Status Admit(Call<Answer>& call, const std::string& model, int64_t version);
  absl::StatusOr<pipeline::NetworkInput> DecodeAndPreprocess(SegmentCall& call);
  absl::StatusOr<SegmentAnswer> Postprocess(SegmentCall& call, absl::StatusOr<BatchResult> batch);
  absl::StatusOr<InferAnswer> TakeOutputs(InferCall& call, absl::StatusOr<BatchResult> batch);
  template <typename Answer>
  void Finish(Call<Answer>& call, absl::StatusOr<Answer> answer);
  // Finish on a worker, for what fails on the caller's thread.
  template <typename CallType>
  void FinishLater(std::shared_ptr<CallType> call, absl::Status error) {
    finishers.Post(
        [this, call = std::move(call), error = std::move(error)] { Finish(*call, {error}); });
  }

  // An error once nobody waits for the call any more.
  template <typename Answer>
  absl::Status CheckWanted(Call<Answer>& call);
  template <typename Answer>
  void RecordBatch(Call<Answer>& call, const BatchResult& batch);

  const Options options;
  lifecycle::ModelManager* const models;
  base::Clock* const clock;
  base::Metrics* const metrics;
  InFlight in_flight;
  // Destroyed from the last to the first, each after it has run all it was given: decoders submit
  // to runners, whose callbacks post to finishers.
  base::WorkerPool finishers;
  RunnerTable runners;
  DecodePool decoders;
};

void Predictor::Segment(SegmentRequest request, SegmentDone done) {
  State* const state = state_.get();
  auto call = std::make_shared<SegmentCall>(std::move(request.context), request.model,
                                            std::move(done), state->clock, state->metrics);
  call->picture = std::move(request.picture);

  // On the caller's thread: all that can be told without touching the picture.
  const absl::Status admitted = [&]() -> absl::Status {
    DEFORM_RETURN_IF_ERROR(state->Admit(*call, request.model, request.version));
    DEFORM_ASSIGN_OR_RETURN(call->options,
                            ResolveOptions(call->model->manifest, request.task, request.options));
    return call->runner->CheckRoom();
  }();
  if (!admitted.ok()) return state->FinishLater(std::move(call), admitted);

  // On a decoder: picture → input of the network → queue of the model.
  const absl::Status posted = state->decoders.Post([state, call] {
    absl::StatusOr<pipeline::NetworkInput> input = state->DecodeAndPreprocess(*call);
    if (!input.ok()) return state->Finish<SegmentAnswer>(*call, input.status());
    call->geometry = input->geometry;

    BatchEntry entry;
    entry.inputs = std::move(input->tensors);
    entry.deadline = call->context.deadline;
    entry.cancellation = call->context.cancellation;
    entry.done = [state, call](absl::StatusOr<BatchResult> batch) {
      // On a finisher: outputs of the network → answer.
      state->finishers.Post([state, call, batch = std::move(batch)]() mutable {
        state->Finish(*call, state->Postprocess(*call, std::move(batch)));
      });
    };
    const absl::Status submitted = call->runner->Submit(std::move(entry));
    if (!submitted.ok()) state->Finish<SegmentAnswer>(*call, submitted);
  });
  if (!posted.ok()) {
    call->record.CountRefused("decode_queue_full");
    state->FinishLater(std::move(call), posted);
  }
}

void Predictor::Infer(InferRequest request, InferDone done) {
  State* const state = state_.get();
  auto call = std::make_shared<InferCall>(std::move(request.context), request.model,
                                          std::move(done), state->clock, state->metrics);

  // There is nothing to decode: the caller's thread puts the tensors into the queue.
  const absl::Status submitted = [&]() -> absl::Status {
    DEFORM_RETURN_IF_ERROR(state->Admit(*call, request.model, request.version));
    BatchEntry entry;
    DEFORM_ASSIGN_OR_RETURN(entry.inputs,
                            OrderInputs(call->model->manifest.inputs, std::move(request.inputs)));
    entry.deadline = call->context.deadline;
    entry.cancellation = call->context.cancellation;
    entry.done = [state, call](absl::StatusOr<BatchResult> batch) {
      state->finishers.Post([state, call, batch = std::move(batch)]() mutable {
        state->Finish(*call, state->TakeOutputs(*call, std::move(batch)));
      });
    };
    return call->runner->Submit(std::move(entry));
  }();
  if (!submitted.ok()) state->FinishLater(std::move(call), submitted);
}

template <typename Answer>
absl::Status Predictor::State::Admit(Call<Answer>& call, const std::string& model,
                                     int64_t version) {
  absl::StatusOr<lifecycle::ModelHandle> handle = models->Acquire(model, version);
  if (handle.ok()) {
    call.model = *std::move(handle);
    call.record.EnterModel(*call.model);
  } else if (handle.status().code() != absl::StatusCode::kNotFound) {
    call.record.NameModel(model);
  }
  call.entered = in_flight.Enter();
  if (!call.entered) {
    call.record.CountRefused("draining");
    return base::MakeError(absl::StatusCode::kUnavailable, "the server is shutting down",
                           {.reason = "DRAINING", .field_violations = {}, .retry_after = {}});
  }
  if (call.model == nullptr) return handle.status();

  base::TimePoint& deadline = call.context.deadline;
  if (deadline == base::TimePoint::max()) deadline = call.record.begin() + options.default_deadline;
  deadline = std::min(deadline, call.record.begin() + options.longest_deadline);
  DEFORM_RETURN_IF_ERROR(CheckWanted(call));
  call.runner = &runners.RunnerOf(call.model);
  return absl::OkStatus();
}

absl::StatusOr<pipeline::NetworkInput> Predictor::State::DecodeAndPreprocess(SegmentCall& call) {
  DEFORM_RETURN_IF_ERROR(CheckWanted(call));
  DEFORM_ASSIGN_OR_RETURN(const pipeline::Picture picture, call.record.Timed(kDecode, [&] {
    return Decode(call.picture, options.decode_limits);
  }));
  call.picture = EncodedPicture{};  // its bytes aren't needed any more
  call.record.CountPixels(int64_t{picture.width} * picture.height);

  DEFORM_RETURN_IF_ERROR(CheckWanted(call));
  return call.record.Timed(
      kPreprocess, [&] { return pipeline::Preprocess(picture, call.model->manifest.preprocess); });
}

absl::StatusOr<SegmentAnswer> Predictor::State::Postprocess(SegmentCall& call,
                                                            absl::StatusOr<BatchResult> batch) {
  DEFORM_RETURN_IF_ERROR(batch.status());
  RecordBatch(call, *batch);
  DEFORM_RETURN_IF_ERROR(CheckWanted(call));

  SegmentAnswer answer;
  DEFORM_ASSIGN_OR_RETURN(answer.result, call.record.Timed(kPostprocess, [&] {
    std::vector<engine::Tensor> outputs;
    for (const engine::Tensor& output : batch->outputs) outputs.push_back(output.Row(0));
    return pipeline::Postprocess(call.model->manifest, outputs, call.geometry, call.options);
  }));
  call.record.CountImages(1);
  answer.model = call.model;
  answer.options = call.options;
  answer.times = call.record.times();
  return answer;
}

absl::StatusOr<InferAnswer> Predictor::State::TakeOutputs(InferCall& call,
                                                          absl::StatusOr<BatchResult> batch) {
  DEFORM_RETURN_IF_ERROR(batch.status());
  RecordBatch(call, *batch);
  DEFORM_RETURN_IF_ERROR(CheckWanted(call));

  InferAnswer answer;
  answer.outputs = std::move(batch->outputs);
  if (!answer.outputs.empty()) call.record.CountImages(answer.outputs.front().shape().front());
  answer.model = call.model;
  answer.times = call.record.times();
  return answer;
}

template <typename Answer>
void Predictor::State::Finish(Call<Answer>& call, absl::StatusOr<Answer> answer) {
  // First the record: who has the answer finds it counted.
  call.record.Finish(answer.status());
  call.done(std::move(answer));
  call.done = nullptr;  // what it holds is gone before the request stops counting
  if (call.entered) in_flight.Leave();
}

template <typename Answer>
absl::Status Predictor::State::CheckWanted(Call<Answer>& call) {
  const auto reason =
      batching::WhyDrop(call.context.deadline, call.context.cancellation, clock->Now());
  if (!reason) return absl::OkStatus();
  call.record.CountDropped(std::string(batching::DropReasonName(*reason)));
  return DropStatus(*reason);
}

template <typename Answer>
void Predictor::State::RecordBatch(Call<Answer>& call, const BatchResult& batch) {
  call.record.AddStage(kQueue, batch.queue);
  call.record.AddStage(kCompute, batch.compute);
  call.record.SetBatchSize(batch.batch_size);
}

Predictor::Predictor(Options options, lifecycle::ModelManager* models, base::Clock* clock,
                     base::Metrics* metrics)
    : models_(models), state_(std::make_unique<State>(options, models, clock, metrics)) {}

Predictor::~Predictor() = default;

void Predictor::StartDraining() {
  state_->in_flight.Close();
  state_->metrics->Draining().Set(1);
}

bool Predictor::WaitIdle(base::TimePoint until) { return state_->in_flight.WaitIdle(until); }

}  // namespace deform::serving
