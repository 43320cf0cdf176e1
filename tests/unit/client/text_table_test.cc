#include "cli/text_table.h"

#include <sstream>

#include "gtest/gtest.h"

namespace deform::client {
namespace {

TEST(TextTable, AlignsColumnsByCharactersNotBytes) {
  TextTable table({{"NAME"}, {"AREA", TextTable::Align::kRight}, {"NOTE"}});
  table.AddRow({"größe", "7", ""});
  table.AddRow({"disk", "1 234", "ok"});
  std::ostringstream out;
  table.Print(out, "  ");
  EXPECT_EQ(out.str(),
            "  NAME    AREA  NOTE\n"
            "  größe      7\n"
            "  disk   1 234  ok\n");
}

TEST(GroupedNumber, GroupsThousands) {
  EXPECT_EQ(GroupedNumber(0), "0");
  EXPECT_EQ(GroupedNumber(999), "999");
  EXPECT_EQ(GroupedNumber(1000), "1 000");
  EXPECT_EQ(GroupedNumber(1234567), "1 234 567");
  EXPECT_EQ(GroupedNumber(-123), "-123");
  EXPECT_EQ(GroupedNumber(-1234), "-1 234");
}

}  // namespace
}  // namespace deform::client
