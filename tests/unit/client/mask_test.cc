#include "results/mask.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test_data.h"

namespace deform::client {
namespace {

std::vector<std::string> Rows(const Mask& mask) {
  std::vector<std::string> rows;
  for (int y = 0; y < mask.height; ++y) {
    std::string row;
    for (int x = 0; x < mask.width; ++x) row += mask.Contains(x, y) ? '1' : '0';
    rows.push_back(row);
  }
  return rows;
}

TEST(DecodeCocoRle, ReadsWhatPycocotoolsWrote) {
  const auto cases = nlohmann::json::parse(ReadTestData("rle_masks.json"));
  ASSERT_GE(cases.size(), 9u);
  for (const auto& example : cases) {
    SCOPED_TRACE(example["name"].get<std::string>());
    const auto mask = DecodeCocoRle(example["counts"].get<std::string>(),
                                    example["size"][1].get<int>(), example["size"][0].get<int>());
    ASSERT_TRUE(mask.ok()) << mask.status();
    EXPECT_EQ(Rows(*mask), example["rows"].get<std::vector<std::string>>());
  }
}

TEST(DecodeCocoRle, RefusesRunsThatDontCoverThePicture) {
  EXPECT_FALSE(DecodeCocoRle("255", 4, 4).ok());  // 12 pixels of 16
  EXPECT_FALSE(DecodeCocoRle("255", 3, 3).ok());  // 12 pixels of 9
  EXPECT_FALSE(DecodeCocoRle("", 2, 2).ok());
  EXPECT_TRUE(DecodeCocoRle("", 0, 0).ok());
}

TEST(DecodeCocoRle, RefusesDamagedNumbers) {
  EXPECT_FALSE(DecodeCocoRle("25 ", 4, 3).ok());  // a foreign character
  EXPECT_FALSE(DecodeCocoRle("25\x7f", 4, 3).ok());
  EXPECT_FALSE(DecodeCocoRle("25P", 4, 3).ok());                 // 'P' says that more follows
  EXPECT_FALSE(DecodeCocoRle("2O", 4, 3).ok());                  // 'O' is -1
  EXPECT_FALSE(DecodeCocoRle(std::string(40, 'o'), 4, 3).ok());  // never ends
}

}  // namespace
}  // namespace deform::client
