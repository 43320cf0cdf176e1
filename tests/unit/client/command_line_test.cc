#include "cli/command_line.h"

#include <sstream>
#include <vector>

#include "cli/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CommandLineTest : public testing::Test {
 protected:
  std::variant<Command, int> Parse(std::vector<const char*> words) {
    words.insert(words.begin(), "deform-client");
    return ParseCommandLine(static_cast<int>(words.size()), words.data(), console_);
  }

  // The command line is refused, with `text` in what is said about it.
  void ExpectRefused(std::vector<const char*> words, const std::string& text) {
    err_.str("");
    const auto parsed = Parse(std::move(words));
    ASSERT_TRUE(std::holds_alternative<int>(parsed)) << text;
    EXPECT_EQ(std::get<int>(parsed), kExitUsage);
    EXPECT_THAT(err_.str(), HasSubstr(text));
  }

  std::ostringstream out_;
  std::ostringstream err_;
  Console console_{out_, err_};
};

TEST_F(CommandLineTest, LeavesUnsetWhatWasntAskedFor) {
  const auto parsed = Parse({"segment", "a.jpg"});
  const auto& arguments = std::get<SegmentArguments>(std::get<Command>(parsed));
  EXPECT_THAT(arguments.files, ElementsAre("a.jpg"));
  EXPECT_EQ(arguments.out, "out");
  EXPECT_EQ(arguments.model, "");
  EXPECT_EQ(arguments.connection.address, "127.0.0.1:8001");
  EXPECT_EQ(arguments.connection.timeout, std::chrono::seconds(30));
  EXPECT_EQ(arguments.concurrency, 8);
  EXPECT_EQ(arguments.task, segmentation::v1::TASK_UNSPECIFIED);
  EXPECT_EQ(arguments.options.SerializeAsString(), "");
}

TEST_F(CommandLineTest, ReadsEveryOptionOfSegment) {
  const auto parsed = Parse({"segment",  "a.jpg",
                             "folder",   "--out",
                             "results",  "--address",
                             "[::1]:9",  "--model",
                             "m",        "--task",
                             "panoptic", "--score-threshold",
                             "0.25",     "--mask-threshold",
                             "0.5",      "--overlap-threshold",
                             "1",        "--max-results",
                             "7",        "--label",
                             "disk",     "--label",
                             "ring",     "--compat",
                             "hf",       "--mask-encoding",
                             "png",      "--timeout",
                             "1500ms",   "--concurrency",
                             "3"});
  ASSERT_TRUE(std::holds_alternative<Command>(parsed)) << err_.str();
  const auto& arguments = std::get<SegmentArguments>(std::get<Command>(parsed));
  EXPECT_THAT(arguments.files, ElementsAre("a.jpg", "folder"));
  EXPECT_EQ(arguments.out, "results");
  EXPECT_EQ(arguments.connection.address, "[::1]:9");
  EXPECT_EQ(arguments.model, "m");
  EXPECT_EQ(arguments.task, segmentation::v1::TASK_PANOPTIC);
  EXPECT_EQ(arguments.options.score_threshold(), 0.25f);
  EXPECT_EQ(arguments.options.mask_threshold(), 0.5f);
  EXPECT_EQ(arguments.options.overlap_mask_area_threshold(), 1.0f);
  EXPECT_EQ(arguments.options.max_results(), 7u);
  EXPECT_THAT(arguments.options.labels(), ElementsAre("disk", "ring"));
  EXPECT_EQ(arguments.options.compat(), segmentation::v1::COMPAT_HF);
  EXPECT_EQ(arguments.options.mask_encoding(), segmentation::v1::MASK_ENCODING_PNG);
  EXPECT_EQ(arguments.connection.timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(arguments.concurrency, 3);
}

TEST_F(CommandLineTest, ReadsModelsAndHealth) {
  const auto models = Parse({"models", "shapes", "--address", "host:1"});
  EXPECT_EQ(std::get<ModelsArguments>(std::get<Command>(models)).name, "shapes");
  const auto health = Parse({"health", "--watch", "models/shapes"});
  const auto& arguments = std::get<HealthArguments>(std::get<Command>(health));
  EXPECT_EQ(arguments.service, "models/shapes");
  EXPECT_TRUE(arguments.watch);
}

TEST_F(CommandLineTest, NamesTheArgumentThatIsWrong) {
  ExpectRefused({}, "subcommand");
  ExpectRefused({"segment"}, "FILES");
  ExpectRefused({"segment", "a", "--task", "nonsense"}, "--task");
  ExpectRefused({"segment", "a", "--compat", "HF"}, "--compat");
  ExpectRefused({"segment", "a", "--mask-encoding", "polygon"}, "--mask-encoding");
  ExpectRefused({"segment", "a", "--unknown"}, "--unknown");
  ExpectRefused({"segment", "a", "--concurrency", "0"}, "--concurrency");
  ExpectRefused({"segment", "a", "--max-results", "0"}, "--max-results");
  for (const char* value : {"nan", "inf", "-0.1", "1.1", "much"}) {
    ExpectRefused({"segment", "a", "--score-threshold", value}, "--score-threshold");
  }
  for (const char* value : {"30", "-1s", "0s", "inf", "soon", "25h"}) {
    ExpectRefused({"segment", "a", "--timeout", value}, "--timeout");
  }
  for (const char* value : {"host", "host:", ":80", "host:0", "host:65536", "host:8x"}) {
    ExpectRefused({"models", "--address", value}, "--address");
  }
}

TEST_F(CommandLineTest, RefusesToLosePngMasks) {
  ExpectRefused({"segment", "a", "--json-only", "--mask-encoding", "png"}, "--json-only");
}

TEST_F(CommandLineTest, HelpAndVersionAreNoErrors) {
  EXPECT_EQ(std::get<int>(Parse({"--help"})), kExitOk);
  EXPECT_THAT(out_.str(), HasSubstr("segment"));
  out_.str("");
  EXPECT_EQ(std::get<int>(Parse({"segment", "--help"})), kExitOk);
  EXPECT_THAT(out_.str(), HasSubstr("--mask-encoding"));
  out_.str("");
  EXPECT_EQ(std::get<int>(Parse({"--version"})), kExitOk);
  EXPECT_THAT(out_.str(), HasSubstr("deform-client "));
  EXPECT_EQ(err_.str(), "");
}

}  // namespace
}  // namespace deform::client
