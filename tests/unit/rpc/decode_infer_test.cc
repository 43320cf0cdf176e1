#include "rpc/decode_infer.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>

#include "base/error.h"

namespace deform::rpc {
namespace {

using inference::ModelInferRequest;
using Fields = std::set<std::string>;

serving::CallContext Context(const std::string& request_id) {
  serving::CallContext context;
  context.request_id = request_id;
  return context;
}

// One FP32 input [2, 3] with raw contents.
ModelInferRequest RawRequest() {
  ModelInferRequest message;
  message.set_model_name("shapes");
  auto& input = *message.add_inputs();
  input.set_name("x");
  input.set_datatype("FP32");
  input.add_shape(2);
  input.add_shape(3);
  const float values[] = {0, 1, 2, 3, 4, 5};
  message.add_raw_input_contents(values, sizeof(values));
  return message;
}

// The same with typed contents of a datatype, left to fill.
ModelInferRequest TypedRequest(const std::string& datatype) {
  ModelInferRequest message = RawRequest();
  message.clear_raw_input_contents();
  message.mutable_inputs(0)->set_datatype(datatype);
  return message;
}

Fields FaultyFields(ModelInferRequest message) {
  const auto decoded = DecodeInferRequest(std::move(message), {});
  Fields fields;
  if (decoded.ok()) return fields;
  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
  const auto details = base::GetErrorDetails(decoded.status());
  EXPECT_TRUE(details.has_value());
  for (const auto& violation : details->field_violations) fields.insert(violation.field);
  return fields;
}

TEST(DecodeInferTest, RawContentsBecomeTheTensorWithoutACopy) {
  ModelInferRequest message = RawRequest();
  const void* bytes = message.raw_input_contents(0).data();
  auto decoded = DecodeInferRequest(std::move(message), Context("r-1"));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->context.request_id, "r-1");
  ASSERT_EQ(decoded->inputs.size(), 1u);
  EXPECT_EQ(decoded->inputs[0].first, "x");
  const engine::Tensor& tensor = decoded->inputs[0].second;
  EXPECT_EQ(tensor.dtype(), engine::DType::kFloat32);
  EXPECT_EQ(tensor.shape(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensor.data(), bytes);
  EXPECT_EQ(tensor.data_as<float>()[5], 5);
}

TEST(DecodeInferTest, RawContentsGoToTheInputsInOrder) {
  ModelInferRequest message = RawRequest();
  auto& second = *message.add_inputs();
  second.set_name("y");
  second.set_datatype("UINT8");
  second.add_shape(2);
  message.add_raw_input_contents("\x07\x09", 2);
  const auto decoded = DecodeInferRequest(std::move(message), {});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[1].first, "y");
  EXPECT_EQ(decoded->inputs[1].second.data_as<uint8_t>()[1], 9);
}

TEST(DecodeInferTest, RawContentsOfAnyOtherSizeAreRefused) {
  for (const size_t bytes : {0, 1, 20, 23, 25, 28, 48}) {
    ModelInferRequest message = RawRequest();
    message.set_raw_input_contents(0, std::string(bytes, '\0'));
    EXPECT_EQ(FaultyFields(std::move(message)), Fields{"raw_input_contents[0]"}) << bytes;
  }
}

TEST(DecodeInferTest, EachDatatypeTakesItsOwnSize) {
  const std::pair<const char*, int> sizes[] = {{"FP32", 4},  {"FP16", 2},  {"BF16", 2},
                                               {"FP64", 8},  {"INT64", 8}, {"INT32", 4},
                                               {"UINT8", 1}, {"BOOL", 1}};
  for (const auto& [datatype, size] : sizes) {
    ModelInferRequest message = RawRequest();
    message.mutable_inputs(0)->set_datatype(datatype);
    message.set_raw_input_contents(0, std::string(6 * size, '\0'));
    EXPECT_EQ(FaultyFields(message), Fields{}) << datatype;
    message.set_raw_input_contents(0, std::string(6 * size + 1, '\0'));
    EXPECT_EQ(FaultyFields(message), Fields{"raw_input_contents[0]"}) << datatype;
  }
}

TEST(DecodeInferTest, ShapesThatAreNoShapesAreRefused) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const std::vector<std::vector<int64_t>> shapes = {
      {}, {-1, 3}, {2, -3}, {kLargest, 2}, {1LL << 32, 1LL << 32}, {1, 1, 1, 1, 1, 1, 1, 1, 6}};
  for (const auto& shape : shapes) {
    ModelInferRequest message = RawRequest();
    message.mutable_inputs(0)->clear_shape();
    for (const int64_t size : shape) message.mutable_inputs(0)->add_shape(size);
    EXPECT_EQ(FaultyFields(std::move(message)), Fields{"inputs[0].shape"});
  }
}

TEST(DecodeInferTest, DatatypesThatNoPackageTakesAreRefused) {
  for (const char* datatype : {"", "BYTES", "UINT64", "INT16", "fp32", "float32"}) {
    ModelInferRequest message = RawRequest();
    message.mutable_inputs(0)->set_datatype(datatype);
    EXPECT_EQ(FaultyFields(std::move(message)), Fields{"inputs[0].datatype"}) << datatype;
  }
}

TEST(DecodeInferTest, RawContentsAreOneForEachInput) {
  ModelInferRequest fewer = RawRequest();
  *fewer.add_inputs() = fewer.inputs(0);
  EXPECT_EQ(FaultyFields(std::move(fewer)), Fields{"raw_input_contents"});
  ModelInferRequest more = RawRequest();
  more.add_raw_input_contents("");
  EXPECT_EQ(FaultyFields(std::move(more)), Fields{"raw_input_contents"});
}

TEST(DecodeInferTest, TypedContentsBesideRawOnesAreRefused) {
  ModelInferRequest message = RawRequest();
  for (int i = 0; i < 6; ++i) message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(i);
  EXPECT_EQ(FaultyFields(std::move(message)), Fields{"inputs[0].contents"});
}

TEST(DecodeInferTest, BytesOtherThanZeroAndOneAreNoBooleans) {
  ModelInferRequest message = RawRequest();
  message.mutable_inputs(0)->set_datatype("BOOL");
  message.set_raw_input_contents(0, std::string("\0\1\0\1\0\2", 6));
  EXPECT_EQ(FaultyFields(std::move(message)), Fields{"raw_input_contents[0]"});
}

TEST(DecodeInferTest, TypedContentsFillTheTensor) {
  ModelInferRequest message = TypedRequest("FP32");
  for (int i = 0; i < 6; ++i) {
    message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(i / 2.0f);
  }
  auto decoded = DecodeInferRequest(std::move(message), {});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].second.data_as<float>()[5], 2.5f);

  message = TypedRequest("INT64");
  for (int i = 0; i < 6; ++i) {
    message.mutable_inputs(0)->mutable_contents()->add_int64_contents(-1LL << (8 * i));
  }
  decoded = DecodeInferRequest(std::move(message), {});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].second.data_as<int64_t>()[5], -1LL << 40);

  message = TypedRequest("UINT8");
  for (int i = 0; i < 6; ++i) message.mutable_inputs(0)->mutable_contents()->add_uint_contents(255);
  decoded = DecodeInferRequest(std::move(message), {});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->inputs[0].second.data_as<uint8_t>()[5], 255);
}

TEST(DecodeInferTest, TypedContentsThatAreAmbiguousAreRefused) {
  ModelInferRequest none = TypedRequest("FP32");
  EXPECT_EQ(FaultyFields(none), Fields{"inputs[0].contents.fp32_contents"});

  ModelInferRequest short_by_one = TypedRequest("FP32");
  for (int i = 0; i < 5; ++i)
    short_by_one.mutable_inputs(0)->mutable_contents()->add_fp32_contents(i);
  EXPECT_EQ(FaultyFields(short_by_one), Fields{"inputs[0].contents.fp32_contents"});

  ModelInferRequest wrong_field = TypedRequest("FP32");
  for (int i = 0; i < 6; ++i)
    wrong_field.mutable_inputs(0)->mutable_contents()->add_fp64_contents(i);
  EXPECT_EQ(FaultyFields(wrong_field), Fields{"inputs[0].contents"});

  ModelInferRequest two_fields = short_by_one;
  two_fields.mutable_inputs(0)->mutable_contents()->add_fp32_contents(5);
  EXPECT_EQ(FaultyFields(two_fields), Fields{});
  two_fields.mutable_inputs(0)->mutable_contents()->add_bytes_contents("x");
  EXPECT_EQ(FaultyFields(two_fields), Fields{"inputs[0].contents"});

  ModelInferRequest too_large = TypedRequest("UINT8");
  for (int i = 0; i < 6; ++i) {
    too_large.mutable_inputs(0)->mutable_contents()->add_uint_contents(i == 3 ? 256 : i);
  }
  EXPECT_EQ(FaultyFields(too_large), Fields{"inputs[0].contents.uint_contents"});

  for (const char* datatype : {"FP16", "BF16"}) {
    ModelInferRequest half = TypedRequest(datatype);
    for (int i = 0; i < 6; ++i) half.mutable_inputs(0)->mutable_contents()->add_fp32_contents(i);
    EXPECT_EQ(FaultyFields(half), Fields{"inputs[0].contents"}) << datatype;
  }
}

TEST(DecodeInferTest, NaNsAreKept) {
  ModelInferRequest message = TypedRequest("FP32");
  for (int i = 0; i < 6; ++i) {
    message.mutable_inputs(0)->mutable_contents()->add_fp32_contents(
        std::numeric_limits<float>::quiet_NaN());
  }
  EXPECT_EQ(FaultyFields(message), Fields{});
}

TEST(DecodeInferTest, VersionsAreNothingOrAPositiveNumber) {
  for (const auto& [text, version] :
       std::initializer_list<std::pair<const char*, int64_t>>{{"", 0}, {"1", 1}, {"20", 20}}) {
    Violations violations;
    EXPECT_EQ(DecodeVersion("version", text, violations), version);
    EXPECT_TRUE(violations.empty()) << text;
  }
  for (const char* text : {"0", "-1", "+1", " 1", "1 ", "1.0", "latest", "9223372036854775808"}) {
    Violations violations;
    DecodeVersion("version", text, violations);
    EXPECT_FALSE(violations.empty()) << text;
  }
}

TEST(DecodeInferTest, ParametersThatPassTensorsAnotherWayAreRefused) {
  ModelInferRequest message = RawRequest();
  (*message.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  (*message.add_outputs()->mutable_parameters())["classification"].set_int64_param(3);
  EXPECT_EQ(FaultyFields(message), (Fields{"inputs[0].parameters", "outputs[0].parameters"}));
  message = RawRequest();
  (*message.mutable_parameters())["priority"].set_int64_param(3);
  EXPECT_EQ(FaultyFields(message), Fields{});
}

TEST(DecodeInferTest, RequestedOutputsAreTheModels) {
  engine::PackageManifest manifest;
  manifest.outputs = {{"a", engine::DType::kFloat32, {-1}}, {"b", engine::DType::kFloat32, {-1}}};
  ModelInferRequest message = RawRequest();
  EXPECT_TRUE(CheckRequestedOutputs(message, manifest).ok());
  message.add_outputs()->set_name("b");
  EXPECT_TRUE(CheckRequestedOutputs(message, manifest).ok());
  message.add_outputs()->set_name("c");
  message.add_outputs()->set_name("b");
  const auto details = base::GetErrorDetails(CheckRequestedOutputs(message, manifest));
  ASSERT_TRUE(details);
  ASSERT_EQ(details->field_violations.size(), 2u);
  EXPECT_EQ(details->field_violations[0].field, "outputs[1].name");
  EXPECT_EQ(details->field_violations[1].field, "outputs[2].name");
}

}  // namespace
}  // namespace deform::rpc
