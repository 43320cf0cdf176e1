#include "rpc/encode_response.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "pipeline/rle.h"
#include "rpc/decode_request.h"

namespace deform::rpc {

namespace v1 = segmentation::v1;

namespace {

absl::Status EncodeMask(const pipeline::Rle& mask, v1::MaskEncoding encoding, v1::Segment& out) {
  if (encoding == v1::MASK_ENCODING_COCO_RLE) {
    out.mutable_coco_rle()->add_size(mask.height);
    out.mutable_coco_rle()->add_size(mask.width);
    out.mutable_coco_rle()->set_counts(pipeline::CompressCounts(mask.counts));
  } else if (encoding == v1::MASK_ENCODING_PNG) {
    DEFORM_ASSIGN_OR_RETURN(*out.mutable_png(), pipeline::EncodeMaskPng(mask));
  }
  return absl::OkStatus();
}

absl::Status EncodeSegment(const pipeline::Segment& segment,
                           const engine::PackageManifest& manifest, v1::MaskEncoding encoding,
                           v1::Segment& out) {
  out.set_id(segment.id);
  out.set_label_id(segment.label_id);
  if (const engine::Label* label = manifest.FindLabel(segment.label_id)) {
    out.set_category_id(label->category_id);
    out.set_label(label->name);
    if (label->is_thing) out.set_is_thing(*label->is_thing);
  }
  out.set_score(segment.score);
  out.mutable_box()->set_x(segment.box.x);
  out.mutable_box()->set_y(segment.box.y);
  out.mutable_box()->set_width(segment.box.width);
  out.mutable_box()->set_height(segment.box.height);
  out.set_area(segment.area);
  return segment.mask ? EncodeMask(*segment.mask, encoding, out) : absl::OkStatus();
}

// Which task uses what: the table of serving/resolve_options.h.
void EncodeOptions(const pipeline::PostprocessOptions& options,
                   const engine::PackageManifest& manifest, v1::MaskEncoding encoding,
                   v1::SegmentOptions& out) {
  const engine::Task task = options.task;
  const bool has_instances = task == engine::Task::kInstance || task == engine::Task::kDetection;
  if (task != engine::Task::kSemantic) out.set_score_threshold(options.score_threshold);
  if (task == engine::Task::kInstance || task == engine::Task::kPanoptic) {
    out.set_mask_threshold(options.mask_threshold);
  }
  if (task == engine::Task::kPanoptic) {
    out.set_overlap_mask_area_threshold(options.overlap_mask_area_threshold);
  }
  if (has_instances) {
    out.set_max_results(options.max_results);
    for (const int32_t id : options.label_ids) {
      if (const engine::Label* label = manifest.FindLabel(id)) out.add_labels(label->name);
    }
  }
  out.set_mask_encoding(encoding);
  out.set_compat(options.compat == engine::Compat::kHuggingFace ? v1::COMPAT_HF
                                                                : v1::COMPAT_DEFAULT);
}

void EncodeTimes(const serving::StageTimes& times, v1::StageTimes& out) {
  EncodeDuration(times.decode, out.mutable_decode());
  EncodeDuration(times.preprocess, out.mutable_preprocess());
  EncodeDuration(times.queue, out.mutable_queue());
  EncodeDuration(times.compute, out.mutable_compute());
  EncodeDuration(times.postprocess, out.mutable_postprocess());
  out.set_batch_size(times.batch_size);
}

v1::MaskEncoding ResolveEncoding(engine::Task task, v1::MaskEncoding asked) {
  if (task == engine::Task::kDetection) return v1::MASK_ENCODING_NONE;
  return asked == v1::MASK_ENCODING_UNSPECIFIED ? v1::MASK_ENCODING_COCO_RLE : asked;
}

}  // namespace

v1::Task EncodeTask(engine::Task task) {
  switch (task) {
    case engine::Task::kInstance:
      return v1::TASK_INSTANCE;
    case engine::Task::kSemantic:
      return v1::TASK_SEMANTIC;
    case engine::Task::kPanoptic:
      return v1::TASK_PANOPTIC;
    case engine::Task::kDetection:
      return v1::TASK_DETECTION;
  }
  return v1::TASK_UNSPECIFIED;
}

void EncodeDuration(base::Duration duration, google::protobuf::Duration* out) {
  const int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  out->set_seconds(nanoseconds / 1'000'000'000);
  out->set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
}

absl::Status EncodeSegmentResponse(const serving::SegmentAnswer& answer, v1::MaskEncoding asked,
                                   base::Clock* clock, base::Metrics* metrics,
                                   v1::SegmentResponse& response) {
  const base::TimePoint begin = clock->Now();
  DEFORM_RETURN_IF_ERROR(CheckMaskEncoding(answer.options.task, asked));
  const v1::MaskEncoding encoding = ResolveEncoding(answer.options.task, asked);
  const engine::PackageManifest& manifest = answer.model->manifest;

  response.set_width(answer.result.width);
  response.set_height(answer.result.height);
  for (const pipeline::Segment& segment : answer.result.segments) {
    DEFORM_RETURN_IF_ERROR(EncodeSegment(segment, manifest, encoding, *response.add_segments()));
  }
  if (answer.result.id_map) {
    DEFORM_ASSIGN_OR_RETURN(*response.mutable_id_map()->mutable_png(),
                            pipeline::EncodeIdMapPng(*answer.result.id_map));
    response.mutable_id_map()->set_void_value(answer.result.id_map->void_value);
  }
  response.set_model(answer.model->name);
  response.set_version(answer.model->version);
  response.set_task(EncodeTask(answer.options.task));
  EncodeOptions(answer.options, manifest, encoding, *response.mutable_options());
  EncodeTimes(answer.times, *response.mutable_times());

  const base::Duration encode = clock->Now() - begin;
  EncodeDuration(encode, response.mutable_times()->mutable_encode());
  metrics->StageDurationSeconds(answer.model->name, "encode")
      .Observe(std::chrono::duration<double>(encode).count());
  return absl::OkStatus();
}

}  // namespace deform::rpc
