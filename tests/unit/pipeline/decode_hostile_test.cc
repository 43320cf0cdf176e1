// Damaged files: whatever the bytes, an answer or an error, and never more memory than the limit
// lets through. Meant to run under AddressSanitizer too.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "fixtures.h"
#include "pipeline/picture.h"

namespace deform::pipeline {
namespace {

std::vector<std::string> Files() {
  std::vector<std::string> files;
  for (const char* folder : {"images", "pipeline/pictures"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(DEFORM_TEST_DATA) + "/" + folder)) {
      if (entry.path().extension() != ".json")
        files.push_back(std::string(folder) + "/" + entry.path().filename().string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Small, so that a flipped size does not slow the test down.
constexpr DecodeLimits kLimits{.max_pixels = 1'000'000, .max_jpeg_scans = 50};

void ExpectAnswer(const std::string& encoded) {
  const auto picture = DecodePicture(encoded, kLimits);
  if (picture.ok()) {
    EXPECT_LE(int64_t{picture->width} * picture->height, kLimits.max_pixels);
    EXPECT_EQ(picture->rgb.size(), size_t{3} * picture->width * picture->height);
  } else {
    EXPECT_TRUE(picture.status().code() == absl::StatusCode::kInvalidArgument ||
                picture.status().code() == absl::StatusCode::kResourceExhausted)
        << picture.status();
  }
  (void)ReadPictureHeader(encoded);
}

class HostileTest : public testing::TestWithParam<std::string> {};

TEST_P(HostileTest, CutAnywhereIsAnAnswerOrAnError) {
  const std::string whole = ReadTestFile(GetParam());
  std::vector<size_t> sizes;
  for (size_t size = 0; size < std::min<size_t>(whole.size(), 64); ++size) sizes.push_back(size);
  for (size_t sixteenth = 1; sixteenth < 16; ++sixteenth)
    sizes.push_back(whole.size() * sixteenth / 16);
  for (size_t lost = 1; lost < std::min<size_t>(whole.size(), 8); ++lost)
    sizes.push_back(whole.size() - lost);
  for (const size_t size : sizes) ExpectAnswer(whole.substr(0, size));
}

TEST_P(HostileTest, OneWrongByteIsAnAnswerOrAnError) {
  const std::string whole = ReadTestFile(GetParam());
  if (whole.empty()) return;
  std::mt19937 random(20240501);
  // Headers decide the most: half of the flips go there.
  for (int flip = 0; flip < 200; ++flip) {
    std::string damaged = whole;
    const size_t most = flip % 2 == 0 ? std::min<size_t>(whole.size(), 128) : whole.size();
    damaged[random() % most] ^= static_cast<char>(1 + random() % 255);
    ExpectAnswer(damaged);
  }
}

INSTANTIATE_TEST_SUITE_P(Pictures, HostileTest, testing::ValuesIn(Files()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
});

}  // namespace
}  // namespace deform::pipeline
