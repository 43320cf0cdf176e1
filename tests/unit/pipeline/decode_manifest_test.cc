// Every picture of tests/data/images gives what its manifest says.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "fixtures.h"
#include "pipeline/picture.h"

namespace deform::pipeline {
namespace {

using Json = nlohmann::json;

std::vector<Json> Cases() {
  const Json manifest = Json::parse(ReadTestFile("images/manifest.json"));
  return {manifest.at("cases").begin(), manifest.at("cases").end()};
}

// Where the manifest leaves a choice, its first answer is ours, but for these formats.
std::string ExpectedStatus(const Json& picture) {
  const std::string file = picture.at("file");
  if (file == "q.avif" || file == "q.jp2") return "INVALID_ARGUMENT";
  return picture.at("status");
}

std::string StatusName(const absl::Status& status) {
  return status.ok() ? "ok" : absl::StatusCodeToString(status.code());
}

class ManifestTest : public testing::TestWithParam<Json> {
 protected:
  std::string encoded() const {
    return ReadTestFile("images/" + GetParam().at("file").get<std::string>());
  }
};

TEST_P(ManifestTest, GivesStatusSizeAndColour) {
  const Json& expected = GetParam();
  const auto picture = DecodePicture(encoded(), DecodeLimits());
  ASSERT_EQ(StatusName(picture.status()), ExpectedStatus(expected)) << picture.status();
  if (!picture.ok()) {
    const auto details = base::GetErrorDetails(picture.status());
    ASSERT_TRUE(details.has_value());
    EXPECT_EQ(details->field_violations.at(0).field, "picture.encoded");
    return;
  }
  EXPECT_EQ(picture->width, expected.at("width"));
  EXPECT_EQ(picture->height, expected.at("height"));
  ASSERT_EQ(picture->rgb.size(), size_t{3} * picture->width * picture->height);
  const int columns = std::min(8, picture->width), rows = std::min(8, picture->height);
  for (int channel = 0; channel < 3; ++channel) {
    double sum = 0;
    for (int y = 0; y < rows; ++y) {
      for (int x = 0; x < columns; ++x) sum += picture->rgb[3 * (y * picture->width + x) + channel];
    }
    EXPECT_NEAR(sum / (rows * columns), expected.at("tl8_mean_rgb").at(channel), expected.at("tol"))
        << "channel " << channel;
  }
}

TEST_P(ManifestTest, HeaderTellsTheStoredSizeWithoutDecoding) {
  const auto picture = DecodePicture(encoded(), DecodeLimits());
  if (!picture.ok()) return;
  const auto header = ReadPictureHeader(encoded());
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(std::minmax({header->width, header->height}),
            std::minmax({picture->width, picture->height}));
}

TEST_P(ManifestTest, IsRefusedWhenOverThePixelLimit) {
  const auto picture = DecodePicture(encoded(), DecodeLimits());
  if (!picture.ok()) return;
  const int64_t pixels = int64_t{picture->width} * picture->height;
  EXPECT_TRUE(DecodePicture(encoded(), {.max_pixels = pixels}).ok());
  const auto refused = DecodePicture(encoded(), {.max_pixels = pixels - 1});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::GetErrorDetails(refused.status())->reason, "IMAGE_TOO_LARGE");
}

INSTANTIATE_TEST_SUITE_P(Images, ManifestTest, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = info.param.at("file");
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

TEST(DecodeTest, ManifestHasAllItsCases) { EXPECT_EQ(Cases().size(), 53u); }

TEST(DecodeTest, SixteenBitGreyKeepsItsRange) {
  const auto picture = DecodePicture(ReadTestFile("images/gray16.png"), DecodeLimits());
  ASSERT_TRUE(picture.ok()) << picture.status();
  const auto [least, most] = std::minmax_element(picture->rgb.begin(), picture->rgb.end());
  EXPECT_EQ(*least, 0);  // its least sample is 12 of 65535
  EXPECT_EQ(*most, 255);
}

// reason → files, and a word of the message that tells the user what the file is.
TEST(DecodeTest, RefusalsNameTheirReason) {
  struct Refusal {
    std::string file, reason, word;
  };
  for (const Refusal& expected : std::vector<Refusal>{
           {"q.avif", "UNSUPPORTED_FORMAT", "AVIF"},
           {"q.jp2", "UNSUPPORTED_FORMAT", "JPEG 2000"},
           {"vector.svg", "UNSUPPORTED_FORMAT", "SVG"},
           {"page.jpg", "UNSUPPORTED_FORMAT", "HTML"},
           {"random.bin", "UNSUPPORTED_FORMAT", "can't be told"},
           {"onebyte.bin", "UNSUPPORTED_FORMAT", "can't be told"},
           {"empty.bin", "DAMAGED_IMAGE", "empty"},
           {"trunc_half.jpg", "DAMAGED_IMAGE", "remature end"},
           {"no_eoi.jpg", "DAMAGED_IMAGE", "remature end"},
           {"trunc.png", "DAMAGED_IMAGE", "premature end"},
           {"badcrc.png", "DAMAGED_IMAGE", "CRC"},
           {"scan_bomb.jpg", "DAMAGED_IMAGE", "scans"},
           {"bomb_20k.png", "IMAGE_TOO_LARGE", "20000 x 20000"},
           {"bomb_header.png", "IMAGE_TOO_LARGE", "100000 x 100000"},
           {"huge_10k.png", "IMAGE_TOO_LARGE", "10000 x 10000"},
       }) {
    const auto picture = DecodePicture(ReadTestFile("images/" + expected.file), DecodeLimits());
    ASSERT_FALSE(picture.ok()) << expected.file;
    EXPECT_EQ(base::GetErrorDetails(picture.status())->reason, expected.reason) << expected.file;
    EXPECT_NE(picture.status().message().find(expected.word), std::string::npos)
        << expected.file << ": " << picture.status();
  }
}

}  // namespace
}  // namespace deform::pipeline
