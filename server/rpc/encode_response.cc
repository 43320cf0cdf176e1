#include "rpc/encode_response.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "pipeline/rle.h"
#include "rpc/decode_request.h"
#include "serving/resolve_options.h"

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

// Only what has an effect is told: an option named in an answer may be sent in the next request.
void EncodeOptions(const pipeline::PostprocessOptions& options,
                   const engine::PackageManifest& manifest, v1::MaskEncoding encoding,
                   v1::SegmentOptions& out) {
  const serving::OptionUse used = serving::UsedOptions(options.task, options.compat);
  if (used.score_threshold) out.set_score_threshold(options.score_threshold);
  if (used.mask_threshold) out.set_mask_threshold(options.mask_threshold);
  if (used.overlap_mask_area_threshold) {
    out.set_overlap_mask_area_threshold(options.overlap_mask_area_threshold);
  }
  if (used.max_results) out.set_max_results(options.max_results);
  if (used.labels) {
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
