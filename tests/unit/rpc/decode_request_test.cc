#include "rpc/decode_request.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <variant>

#include "base/error.h"

namespace deform::rpc {
namespace {

namespace v1 = segmentation::v1;

serving::CallContext Context(const std::string& request_id) {
  serving::CallContext context;
  context.request_id = request_id;
  return context;
}

v1::SegmentRequest ValidRequest() {
  v1::SegmentRequest request;
  request.set_model("shapes");
  request.set_encoded("bytes of a picture");
  return request;
}

std::set<std::string> FaultyFields(v1::SegmentRequest request) {
  const auto decoded = DecodeSegmentRequest(std::move(request), {});
  std::set<std::string> fields;
  if (decoded.ok()) return fields;
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  const auto details = base::GetErrorDetails(decoded.status());
  EXPECT_TRUE(details.has_value());
  for (const auto& violation : details->field_violations) fields.insert(violation.field);
  return fields;
}

using Fields = std::set<std::string>;

TEST(DecodeSegmentRequestTest, UnsetMeansThePackagesDefault) {
  const auto decoded = DecodeSegmentRequest(ValidRequest(), Context("r-1"));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const serving::SegmentRequest& request = decoded->request;
  EXPECT_EQ(request.context.request_id, "r-1");
  EXPECT_EQ(request.model, "shapes");
  EXPECT_EQ(request.version, 0);
  EXPECT_EQ(request.task, std::nullopt);
  EXPECT_EQ(request.options.score_threshold, std::nullopt);
  EXPECT_EQ(request.options.mask_threshold, std::nullopt);
  EXPECT_EQ(request.options.overlap_mask_area_threshold, std::nullopt);
  EXPECT_EQ(request.options.max_results, std::nullopt);
  EXPECT_EQ(request.options.compat, std::nullopt);
  EXPECT_TRUE(request.options.label_names.empty());
}

TEST(DecodeSegmentRequestTest, ASetZeroIsNotUnset) {
  v1::SegmentRequest message = ValidRequest();
  message.mutable_options()->set_score_threshold(0);
  message.mutable_options()->set_mask_threshold(0);
  message.mutable_options()->set_overlap_mask_area_threshold(0);
  const auto decoded = DecodeSegmentRequest(std::move(message), {});
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->request.options.score_threshold, 0);
  EXPECT_EQ(decoded->request.options.mask_threshold, 0);
  EXPECT_EQ(decoded->request.options.overlap_mask_area_threshold, 0);
}

TEST(DecodeSegmentRequestTest, EachTaskAndCompatIsKnown) {
  const std::pair<v1::Task, engine::Task> tasks[] = {
      {v1::TASK_INSTANCE, engine::Task::kInstance},
      {v1::TASK_SEMANTIC, engine::Task::kSemantic},
      {v1::TASK_PANOPTIC, engine::Task::kPanoptic},
      {v1::TASK_DETECTION, engine::Task::kDetection}};
  for (const auto& [sent, expected] : tasks) {
    v1::SegmentRequest message = ValidRequest();
    message.set_task(sent);
    message.mutable_options()->set_compat(v1::COMPAT_HF);
    const auto decoded = DecodeSegmentRequest(std::move(message), {});
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->request.task, expected);
    EXPECT_EQ(decoded->request.options.compat, engine::Compat::kHuggingFace);
  }
}

TEST(DecodeSegmentRequestTest, MovesThePictureInsteadOfCopyingIt) {
  v1::SegmentRequest encoded = ValidRequest();
  encoded.set_encoded(std::string(1 << 20, 'x'));
  const void* encoded_bytes = encoded.encoded().data();
  auto decoded = DecodeSegmentRequest(std::move(encoded), {});
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(std::get<serving::EncodedPicture>(decoded->request.picture).bytes.data(),
            encoded_bytes);

  v1::SegmentRequest raw = ValidRequest();
  raw.mutable_raw()->set_rgb8(std::string(1 << 20, 'x'));
  raw.mutable_raw()->set_width(7);
  raw.mutable_raw()->set_height(5);
  raw.mutable_raw()->set_row_stride(32);
  const void* rows = raw.raw().rgb8().data();
  decoded = DecodeSegmentRequest(std::move(raw), {});
  ASSERT_TRUE(decoded.ok());
  const auto& picture = std::get<serving::RawPicture>(decoded->request.picture);
  EXPECT_EQ(picture.rows.data(), rows);
  EXPECT_EQ(picture.width, 7);
  EXPECT_EQ(picture.height, 5);
  EXPECT_EQ(picture.row_stride_bytes, 32);
}

TEST(DecodeSegmentRequestTest, NamesEveryWrongFieldAtOnce) {
  v1::SegmentRequest message;
  message.set_version(-2);
  message.set_task(static_cast<v1::Task>(99));
  message.mutable_options()->set_max_results(0);
  message.mutable_options()->set_compat(static_cast<v1::Compat>(7));
  message.mutable_options()->set_mask_encoding(static_cast<v1::MaskEncoding>(2));
  EXPECT_EQ(FaultyFields(std::move(message)),
            (Fields{"model", "version", "task", "picture", "options.max_results", "options.compat",
                    "options.mask_encoding"}));
}

TEST(DecodeSegmentRequestTest, RefusesMoreResultsThanCanBeCounted) {
  v1::SegmentRequest message = ValidRequest();
  message.mutable_options()->set_max_results(std::numeric_limits<uint32_t>::max());
  EXPECT_EQ(FaultyFields(std::move(message)), Fields{"options.max_results"});
}

TEST(DecodeSegmentRequestTest, RefusesAModelNameOfAnyLength) {
  v1::SegmentRequest message = ValidRequest();
  message.set_model(std::string(256, 'm'));
  EXPECT_EQ(FaultyFields(message), Fields{});
  message.set_model(std::string(257, 'm'));
  EXPECT_EQ(FaultyFields(message), Fields{"model"});
}

TEST(DecodeSegmentRequestTest, RefusesMaskEncodingsForDetection) {
  for (const auto encoding : {v1::MASK_ENCODING_COCO_RLE, v1::MASK_ENCODING_PNG}) {
    v1::SegmentRequest message = ValidRequest();
    message.set_task(v1::TASK_DETECTION);
    message.mutable_options()->set_mask_encoding(encoding);
    EXPECT_EQ(FaultyFields(message), Fields{"options.mask_encoding"});
    message.set_task(v1::TASK_INSTANCE);
    EXPECT_EQ(FaultyFields(message), Fields{});
  }
}

}  // namespace
}  // namespace deform::rpc
