#include "results/png.h"

#include "gtest/gtest.h"
#include "test_data.h"

namespace deform::client {
namespace {

TEST(ReadGreyPng, GivesSamplesOf8BitsAsStored) {
  const auto ids = ReadGreyPng(ReadTestData("ids_8_bit.png"), 7, 5);
  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_EQ(ids->samples.size(), 35u);
  for (int i = 0; i < 35; ++i) EXPECT_EQ(ids->samples[i], i);
}

TEST(ReadGreyPng, GivesSamplesOf16BitsAsStored) {
  const auto ids = ReadGreyPng(ReadTestData("ids_16_bit.png"), 7, 5);
  ASSERT_TRUE(ids.ok()) << ids.status();
  ASSERT_EQ(ids->samples.size(), 35u);
  for (int i = 0; i < 35; ++i) EXPECT_EQ(ids->samples[i], i * 1000 + 3);
}

TEST(ReadGreyPng, RefusesAnotherSizeOrKind) {
  EXPECT_FALSE(ReadGreyPng(ReadTestData("ids_8_bit.png"), 5, 7).ok());
  EXPECT_FALSE(ReadGreyPng(ReadTestData("rgb.png"), 7, 5).ok());
}

TEST(ReadGreyPng, RefusesDamage) {
  const std::string png = ReadTestData("ids_16_bit.png");
  for (size_t length = 0; length + 12 < png.size(); ++length) {
    EXPECT_FALSE(ReadGreyPng(png.substr(0, length), 7, 5).ok()) << length;
  }
  EXPECT_FALSE(ReadGreyPng(std::string(200, 'x'), 7, 5).ok());
}

TEST(WriteRgbPng, WritesThePngSignatureAndTheSize) {
  const auto png = WriteRgbPng(std::vector<uint8_t>(7 * 5 * 3, 90), 7, 5);
  ASSERT_TRUE(png.ok()) << png.status();
  EXPECT_EQ(png->substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png->substr(16, 8), std::string("\0\0\0\x07\0\0\0\x05", 8));
}

}  // namespace
}  // namespace deform::client
