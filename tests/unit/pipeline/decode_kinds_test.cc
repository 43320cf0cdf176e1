// Kinds of each format, against the pixels that other programs wrote or read
// (tests/support/make_decode_fixtures.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures.h"
#include "pipeline/exif_orientation.h"
#include "pipeline/picture.h"

namespace deform::pipeline {
namespace {

using std::string_literals::operator""s;
using Json = nlohmann::json;

std::vector<Json> Cases() {
  const Json cases = Json::parse(ReadTestFile("pipeline/pictures/pictures.json"));
  return {cases.begin(), cases.end()};
}

class KindsTest : public testing::TestWithParam<Json> {};

TEST_P(KindsTest, GivesThePixelsThatWentInOrTellsWhyNot) {
  const Json& expected = GetParam();
  const std::string encoded =
      ReadTestFile("pipeline/pictures/" + expected.at("file").get<std::string>());
  const auto picture = DecodePicture(encoded, DecodeLimits());
  const std::string refusal = expected.at("refusal");
  if (!refusal.empty()) {
    ASSERT_EQ(picture.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(picture.status().message().find(refusal), std::string::npos) << picture.status();
    return;
  }
  ASSERT_TRUE(picture.ok()) << picture.status();
  ASSERT_EQ(picture->width, expected.at("width"));
  ASSERT_EQ(picture->height, expected.at("height"));
  const auto pixels = expected.at("rgb").get<std::vector<int>>();
  ASSERT_EQ(picture->rgb.size(), pixels.size());
  int worst = 0;
  for (size_t i = 0; i < pixels.size(); ++i)
    worst = std::max(worst, std::abs(pixels[i] - picture->rgb[i]));
  EXPECT_LE(worst, expected.at("tolerance").get<int>());
}

INSTANTIATE_TEST_SUITE_P(Pictures, KindsTest, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = info.param.at("file");
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

// A TIFF block of one entry, little-endian.
std::string Exif(uint16_t tag, uint16_t type, uint32_t count, uint16_t value) {
  std::string block = "II*\0\x08\0\0\0\x01\0"s;
  const auto append = [&](uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) block.push_back(static_cast<char>(number >> 8 * i & 255));
  };
  append(tag, 2);
  append(type, 2);
  append(count, 4);
  append(value, 2);
  append(0, 2);
  append(0, 4);
  return block;
}

TEST(ExifOrientationTest, ReadsTheOrientationInBothByteOrdersWithOrWithoutPrefix) {
  EXPECT_EQ(ParseExifOrientation(Exif(0x0112, 3, 1, 6)), 6);
  EXPECT_EQ(ParseExifOrientation("Exif\0\0"s + Exif(0x0112, 3, 1, 8)), 8);
  EXPECT_EQ(ParseExifOrientation("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x05\0\0"s), 5);
}

TEST(ExifOrientationTest, TakesAnythingElseForUpright) {
  EXPECT_EQ(ParseExifOrientation(""), 1);
  EXPECT_EQ(ParseExifOrientation("Exif\0\0"s), 1);
  EXPECT_EQ(ParseExifOrientation(Exif(0x0112, 3, 1, 0)), 1);
  EXPECT_EQ(ParseExifOrientation(Exif(0x0112, 3, 1, 9)), 1);
  EXPECT_EQ(ParseExifOrientation(Exif(0x0112, 4, 1, 6)), 1);
  EXPECT_EQ(ParseExifOrientation(Exif(0x0112, 3, 2, 6)), 1);
  EXPECT_EQ(ParseExifOrientation(Exif(0x0100, 3, 1, 6)), 1);
  EXPECT_EQ(ParseExifOrientation("II*\0\xFF\xFF\xFF\x7F"s), 1);
  EXPECT_EQ(ParseExifOrientation("II*\0\xFF\xFF\xFF\xFF\x01\0"s), 1);
  const std::string whole = Exif(0x0112, 3, 1, 6);
  // Up to where the value ends, every cut loses it.
  for (size_t size = 0; size < 20; ++size)
    EXPECT_EQ(ParseExifOrientation(whole.substr(0, size)), 1) << size;
}

TEST(RawPictureTest, CopiesRowsWithoutTheirPadding) {
  const std::string rows = "abcdefXXghijklXX";
  for (const size_t size : {rows.size(), rows.size() - 2}) {
    const auto picture = CopyRawPicture(rows.substr(0, size), 2, 2, 8, DecodeLimits());
    ASSERT_TRUE(picture.ok()) << picture.status();
    EXPECT_EQ(std::string(picture->rgb.begin(), picture->rgb.end()), "abcdefghijkl");
    EXPECT_EQ(picture->width, 2);
    EXPECT_EQ(picture->height, 2);
  }
  EXPECT_TRUE(CopyRawPicture("abcdef", 1, 2, 0, DecodeLimits()).ok());
}

TEST(RawPictureTest, RefusesSizesThatDoNotFitByName) {
  const auto message = [](std::string_view rows, int64_t width, int64_t height, int64_t stride) {
    return std::string(
        CopyRawPicture(rows, width, height, stride, DecodeLimits()).status().ToString());
  };
  using testing::HasSubstr;
  EXPECT_THAT(message("abc", 0, 1, 0), HasSubstr("picture.raw.width"));
  EXPECT_THAT(message("abc", 1, -1, 0), HasSubstr("picture.raw.height"));
  EXPECT_THAT(message("abcdef", 2, 1, 5), HasSubstr("picture.raw.row_stride"));
  EXPECT_THAT(message("abcdef", 2, 1, -8), HasSubstr("picture.raw.row_stride"));
  EXPECT_THAT(message("abcdefg", 2, 1, 0), HasSubstr("picture.raw.rgb8"));
  EXPECT_THAT(message("abcde", 2, 1, 0), HasSubstr("picture.raw.rgb8"));
  EXPECT_THAT(message("abcdef", 1, 2, int64_t{1} << 62), HasSubstr("picture.raw.rgb8"));
  EXPECT_THAT(message("abc", 2'000'000'000, 2'000'000'000, 0), HasSubstr("pixels are allowed"));
}

}  // namespace
}  // namespace deform::pipeline
