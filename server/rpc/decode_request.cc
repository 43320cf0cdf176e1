#include "rpc/decode_request.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "rpc/violations.h"

namespace deform::rpc {

namespace v1 = segmentation::v1;

namespace {

constexpr size_t kMaxModelNameBytes = 256;

std::optional<engine::Task> DecodeTask(v1::Task task, Violations& violations) {
  switch (task) {
    case v1::TASK_UNSPECIFIED:
      return std::nullopt;
    case v1::TASK_INSTANCE:
      return engine::Task::kInstance;
    case v1::TASK_SEMANTIC:
      return engine::Task::kSemantic;
    case v1::TASK_PANOPTIC:
      return engine::Task::kPanoptic;
    case v1::TASK_DETECTION:
      return engine::Task::kDetection;
    default:
      break;
  }
  violations.Add("task", absl::StrCat(static_cast<int>(task), " is no task this server knows"));
  return std::nullopt;
}

std::optional<engine::Compat> DecodeCompat(v1::Compat compat, Violations& violations) {
  switch (compat) {
    case v1::COMPAT_UNSPECIFIED:
      return std::nullopt;
    case v1::COMPAT_DEFAULT:
      return engine::Compat::kDefault;
    case v1::COMPAT_HF:
      return engine::Compat::kHuggingFace;
    default:
      break;
  }
  violations.Add("options.compat",
                 absl::StrCat(static_cast<int>(compat), " is no compat this server knows"));
  return std::nullopt;
}

void DecodePicture(v1::SegmentRequest& message, serving::SegmentRequest& request,
                   Violations& violations) {
  switch (message.picture_case()) {
    case v1::SegmentRequest::kEncoded:
      request.picture = serving::EncodedPicture{std::move(*message.mutable_encoded())};
      return;
    case v1::SegmentRequest::kRaw: {
      v1::RawPicture& raw = *message.mutable_raw();
      request.picture = serving::RawPicture{.rows = std::move(*raw.mutable_rgb8()),
                                            .width = raw.width(),
                                            .height = raw.height(),
                                            .row_stride_bytes = raw.row_stride()};
      return;
    }
    case v1::SegmentRequest::PICTURE_NOT_SET:
      break;
  }
  violations.Add("picture", "is missing; set `encoded` or `raw`");
}

void DecodeOptions(v1::SegmentOptions& message, serving::RequestedOptions& options,
                   Violations& violations) {
  if (message.has_score_threshold()) options.score_threshold = message.score_threshold();
  if (message.has_mask_threshold()) options.mask_threshold = message.mask_threshold();
  if (message.has_overlap_mask_area_threshold()) {
    options.overlap_mask_area_threshold = message.overlap_mask_area_threshold();
  }
  if (message.has_max_results()) {
    constexpr uint32_t kLargest = std::numeric_limits<int>::max();
    if (message.max_results() == 0 || message.max_results() > kLargest) {
      violations.Add("options.max_results",
                     absl::StrCat(message.max_results(), "; 1 to ", kLargest, " is allowed"));
    } else {
      options.max_results = static_cast<int>(message.max_results());
    }
  }
  options.label_names.assign(message.labels().begin(), message.labels().end());
  options.compat = DecodeCompat(message.compat(), violations);
  if (!v1::MaskEncoding_IsValid(message.mask_encoding())) {
    violations.Add("options.mask_encoding", absl::StrCat(static_cast<int>(message.mask_encoding()),
                                                         " is no encoding this server knows"));
  }
}

}  // namespace

void CheckModelName(const std::string& field, const std::string& name, Violations& violations) {
  if (name.empty()) violations.Add(field, "is empty; ListModels tells the names");
  if (name.size() > kMaxModelNameBytes) {
    violations.Add(field, absl::StrCat("has ", name.size(), " bytes; at most ", kMaxModelNameBytes,
                                       " are allowed"));
  }
}

void CheckVersion(const std::string& field, int64_t version, Violations& violations) {
  if (version < 0) {
    violations.Add(field,
                   absl::StrCat(version, "; a positive number, or 0 for the newest, is allowed"));
  }
}

absl::Status CheckMaskEncoding(engine::Task task, v1::MaskEncoding encoding) {
  const bool asks_for_masks =
      encoding == v1::MASK_ENCODING_COCO_RLE || encoding == v1::MASK_ENCODING_PNG;
  if (task != engine::Task::kDetection || !asks_for_masks) return absl::OkStatus();
  return base::InvalidField(
      "options.mask_encoding",
      absl::StrCat(v1::MaskEncoding_Name(encoding), "; DETECTION answers have no masks"));
}

absl::StatusOr<DecodedSegmentRequest> DecodeSegmentRequest(v1::SegmentRequest&& message,
                                                           const serving::CallContext& context) {
  Violations violations;
  DecodedSegmentRequest decoded;
  serving::SegmentRequest& request = decoded.request;
  request.context = context;

  CheckModelName("model", message.model(), violations);
  request.model = std::move(*message.mutable_model());
  CheckVersion("version", message.version(), violations);
  request.version = message.version();
  request.task = DecodeTask(message.task(), violations);
  DecodePicture(message, request, violations);
  DecodeOptions(*message.mutable_options(), request.options, violations);
  decoded.mask_encoding = message.options().mask_encoding();

  DEFORM_RETURN_IF_ERROR(violations.ToStatus());
  if (request.task) {
    DEFORM_RETURN_IF_ERROR(CheckMaskEncoding(*request.task, decoded.mask_encoding));
  }
  return decoded;
}

}  // namespace deform::rpc
