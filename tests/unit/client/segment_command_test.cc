#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>

#include "cli/files.h"
#include "fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "pipeline/picture.h"
#include "results/png.h"
#include "test_data.h"

namespace deform::client {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using segmentation::v1::SegmentRequest;
using segmentation::v1::SegmentResponse;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A plain picture of 7×5 pixels, told apart by its grey level.
std::string PlainPicture(uint8_t level) {
  return *WriteRgbPng(std::vector<uint8_t>(7 * 5 * 3, level), 7, 5);
}

uint8_t LevelOf(const SegmentRequest& request) {
  return pipeline::DecodePicture(request.encoded(), {})->rgb[0];
}

// One disk that covers the whole picture of 7×5 pixels.
grpc::Status AnswerOneDisk(const SegmentRequest& request, SegmentResponse* response) {
  response->set_width(7);
  response->set_height(5);
  response->set_model(request.model());
  response->set_version(3);
  response->set_task(segmentation::v1::TASK_INSTANCE);
  auto* segment = response->add_segments();
  segment->set_id(1);
  segment->set_category_id(1);
  segment->set_label("disk");
  segment->set_is_thing(true);
  segment->set_score(0.75f);
  segment->mutable_box()->set_width(7);
  segment->mutable_box()->set_height(5);
  segment->set_area(35);
  segment->mutable_coco_rle()->add_size(5);
  segment->mutable_coco_rle()->add_size(7);
  segment->mutable_coco_rle()->set_counts("0S1");
  return grpc::Status::OK;
}

class SegmentCommandTest : public testing::Test {
 protected:
  SegmentCommandTest() {
    server_.segmentation().AddModel(ShapesModel("shapes"));
    server_.segmentation().OnSegment(AnswerOneDisk);
  }

  // Pictures p0.png, p1.png, … whose grey levels are 0, 1, …
  std::vector<std::string> WritePictures(int count) {
    std::vector<std::string> paths;
    for (int i = 0; i < count; ++i) {
      paths.push_back(folder_.Write("p" + std::to_string(i) + ".png", PlainPicture(i)));
    }
    return paths;
  }

  ClientRun Segment(std::vector<std::string> files, std::vector<std::string> options = {}) {
    std::vector<std::string> words{"segment"};
    words.insert(words.end(), files.begin(), files.end());
    words.insert(words.end(), {"--address", server_.address(), "--out", Out().string()});
    words.insert(words.end(), options.begin(), options.end());
    return RunClient(words);
  }

  fs::path Out() const { return folder_.path() / "out"; }

  json Results() const { return json::parse(*ReadFile(Out() / "results.json")); }

  std::set<std::string> OutFiles() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(Out())) names.insert(entry.path().filename());
    return names;
  }

  TemporaryFolder folder_;
  FakeServer server_;
};

TEST_F(SegmentCommandTest, SendsTheBytesAsTheyAreWithWhatWasAskedFor) {
  const std::string picture = ReadTestData("turned.jpg");
  SegmentRequest sent;
  server_.segmentation().OnSegment([&](const SegmentRequest& request, SegmentResponse* response) {
    sent = request;
    return AnswerOneDisk(request, response);
  });
  Segment({folder_.Write("a.jpg", picture)},
          {"--task", "instance", "--score-threshold", "0.25", "--compat", "hf", "--json-only"});
  EXPECT_EQ(sent.encoded(), picture);
  EXPECT_EQ(sent.model(), "shapes");
  EXPECT_EQ(sent.version(), 0);
  EXPECT_EQ(sent.task(), segmentation::v1::TASK_INSTANCE);
  EXPECT_EQ(sent.options().score_threshold(), 0.25f);
  EXPECT_FALSE(sent.options().has_mask_threshold());
  EXPECT_EQ(sent.options().compat(), segmentation::v1::COMPAT_HF);
  EXPECT_EQ(sent.options().mask_encoding(), segmentation::v1::MASK_ENCODING_UNSPECIFIED);
}

TEST_F(SegmentCommandTest, PrintsWhatWasFoundAndWritesOverlayAndJson) {
  const ClientRun run = Segment(WritePictures(1));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("p0.png  7×5  1 segment  "));
  EXPECT_THAT(run.out, HasSubstr("\n"
                                 "  LABEL  SCORE    X    Y  WIDTH  HEIGHT  AREA\n"
                                 "  disk   0.750  0.0  0.0    7.0     5.0    35\n"));
  EXPECT_THAT(OutFiles(), UnorderedElementsAre("p0.overlay.png", "results.json"));
  const auto overlay = pipeline::DecodePicture(*ReadFile(Out() / "p0.overlay.png"), {});
  ASSERT_TRUE(overlay.ok()) << overlay.status();
  EXPECT_EQ(overlay->width, 7 * 74);
  EXPECT_EQ(overlay->height, 5 * 74);
  EXPECT_GT(overlay->rgb[3 * 10 + 0], 60);  // black before, the disk's red now
  EXPECT_EQ(Results()["annotations"][0]["category_name"], "disk");
  EXPECT_EQ(Results()["images"][0]["overlay"], "p0.overlay.png");
}

TEST_F(SegmentCommandTest, DrawsOnTheUprightPicture) {
  server_.segmentation().OnSegment([](const SegmentRequest&, SegmentResponse* response) {
    response->set_width(16);
    response->set_height(24);
    return grpc::Status::OK;
  });
  const ClientRun run = Segment({folder_.Write("turned.jpg", ReadTestData("turned.jpg"))});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto overlay = pipeline::DecodePicture(*ReadFile(Out() / "turned.overlay.png"), {});
  ASSERT_TRUE(overlay.ok()) << overlay.status();
  ASSERT_EQ(overlay->width, 16 * 22);
  ASSERT_EQ(overlay->height, 24 * 22);
  EXPECT_LT(overlay->rgb.front(), 30);  // dark above
  EXPECT_GT(overlay->rgb.back(), 190);  // bright below
}

TEST_F(SegmentCommandTest, ReportsAFailedPictureAndGoesOn) {
  server_.segmentation().OnSegment([](const SegmentRequest& request, SegmentResponse* response) {
    if (LevelOf(request) == 1) {
      return RichError(grpc::StatusCode::INVALID_ARGUMENT, "the picture is damaged",
                       "DAMAGED_IMAGE", {{"picture.encoded", "ends too early"}}, std::nullopt);
    }
    return AnswerOneDisk(request, response);
  });
  const ClientRun run = Segment(WritePictures(3));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("p1.png: INVALID_ARGUMENT: the picture is damaged "
                                 "[DAMAGED_IMAGE] (picture.encoded: ends too early)\n"));
  EXPECT_THAT(run.err, HasSubstr("3 pictures, 1 failed"));
  EXPECT_THAT(OutFiles(), UnorderedElementsAre("p0.overlay.png", "p2.overlay.png", "results.json"));
  const json results = Results();
  EXPECT_EQ(results["images"].size(), 2u);
  EXPECT_EQ(results["failures"].size(), 1u);
  EXPECT_EQ(results["failures"][0]["reason"], "DAMAGED_IMAGE");
}

TEST_F(SegmentCommandTest, ReportsAFileThatCantBeRead) {
  std::vector<std::string> files = WritePictures(1);
  files.insert(files.begin(), folder_.path() / "missing.png");
  const ClientRun run = Segment(files);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("missing.png: NOT_FOUND"));
  EXPECT_EQ(Results()["images"].size(), 1u);
}

TEST_F(SegmentCommandTest, ReportsAnAnswerThatCantBeDrawnAndKeepsItsNumbers) {
  server_.segmentation().OnSegment([](const SegmentRequest& request, SegmentResponse* response) {
    AnswerOneDisk(request, response);
    response->mutable_segments(0)->mutable_coco_rle()->set_counts("05");
    return grpc::Status::OK;
  });
  const ClientRun run = Segment(WritePictures(1));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("p0.png: INVALID_ARGUMENT: run lengths"));
  EXPECT_EQ(Results()["annotations"].size(), 1u);
  EXPECT_EQ(Results()["failures"].size(), 1u);
}

TEST_F(SegmentCommandTest, KeepsTheOrderOfThePicturesWhateverEndsFirst) {
  constexpr int kPictures = 6;
  std::mutex mutex;
  std::condition_variable changed;
  int ended = 0;
  // The first picture is answered last.
  server_.segmentation().OnSegment([&](const SegmentRequest& request, SegmentResponse* response) {
    std::unique_lock lock(mutex);
    if (LevelOf(request) == 0) changed.wait(lock, [&] { return ended == kPictures - 1; });
    ++ended;
    changed.notify_all();
    return AnswerOneDisk(request, response);
  });
  const ClientRun run = Segment(WritePictures(kPictures), {"--concurrency", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const json results = Results();
  size_t previous = 0;
  for (int i = 0; i < kPictures; ++i) {
    const std::string name = "p" + std::to_string(i) + ".png";
    EXPECT_THAT(results["images"][i]["file_name"].get<std::string>(), HasSubstr(name));
    EXPECT_EQ(results["annotations"][i]["image_id"], i + 1);
    const size_t position = run.out.find(name);
    ASSERT_NE(position, std::string::npos);
    EXPECT_GE(position, previous);
    previous = position;
  }
}

TEST_F(SegmentCommandTest, TriesAgainWhenAFullServerSaysWhen) {
  std::atomic<int> attempts = 0;
  server_.segmentation().OnSegment([&](const SegmentRequest& request, SegmentResponse* response) {
    if (++attempts < 3) {
      return RichError(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full", "QUEUE_FULL", {},
                       std::chrono::milliseconds(1));
    }
    return AnswerOneDisk(request, response);
  });
  const ClientRun run = Segment(WritePictures(1));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(attempts, 3);
}

TEST_F(SegmentCommandTest, GivesUpOnAServerThatStaysFull) {
  std::atomic<int> attempts = 0;
  server_.segmentation().OnSegment([&](const SegmentRequest&, SegmentResponse*) {
    ++attempts;
    return RichError(grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full", "QUEUE_FULL", {},
                     std::chrono::milliseconds(1));
  });
  const ClientRun run = Segment(WritePictures(1));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(attempts, 10);
  EXPECT_THAT(run.err, HasSubstr("QUEUE_FULL"));
}

TEST_F(SegmentCommandTest, NeverRetriesWhatCantPass) {
  std::atomic<int> attempts = 0;
  server_.segmentation().OnSegment([&](const SegmentRequest&, SegmentResponse*) {
    ++attempts;
    return RichError(grpc::StatusCode::RESOURCE_EXHAUSTED, "too large", "IMAGE_TOO_LARGE", {},
                     std::nullopt);
  });
  EXPECT_EQ(Segment(WritePictures(1)).exit_code, 1);
  EXPECT_EQ(attempts, 1);
}

TEST_F(SegmentCommandTest, EndsAPictureAtItsTimeout) {
  std::mutex mutex;
  std::condition_variable changed;
  bool released = false;
  server_.segmentation().OnSegment([&](const SegmentRequest& request, SegmentResponse* response) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return released; });
    return AnswerOneDisk(request, response);
  });
  const ClientRun run = Segment(WritePictures(1), {"--timeout", "50ms"});
  {
    const std::lock_guard lock(mutex);
    released = true;
  }
  changed.notify_all();
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(SegmentCommandTest, TakesAnswersLargerThanTheDefaultLimitOfGrpc) {
  server_.segmentation().OnSegment([](const SegmentRequest& request, SegmentResponse* response) {
    AnswerOneDisk(request, response);
    response->mutable_segments(0)->mutable_coco_rle()->set_counts(std::string(6 << 20, '1'));
    return grpc::Status::OK;
  });
  const ClientRun run = Segment(WritePictures(1), {"--json-only"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_GT(fs::file_size(Out() / "results.json"), 6u << 20);
}

TEST_F(SegmentCommandTest, WritesIdMapsAndPngMasksAsTheyCame) {
  const std::string mask = ReadTestData("ids_8_bit.png");
  server_.segmentation().OnSegment([&](const SegmentRequest& request, SegmentResponse* response) {
    AnswerOneDisk(request, response);
    response->set_task(segmentation::v1::TASK_PANOPTIC);
    response->mutable_segments(0)->set_png(mask);
    response->mutable_id_map()->set_png(mask);
    return grpc::Status::OK;
  });
  const ClientRun run = Segment(WritePictures(1), {"--mask-encoding", "png"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(OutFiles(), UnorderedElementsAre("p0.ids.png", "p0.mask-1.png", "p0.overlay.png",
                                               "results.json"));
  EXPECT_EQ(*ReadFile(Out() / "p0.ids.png"), mask);
  EXPECT_EQ(*ReadFile(Out() / "p0.mask-1.png"), mask);
  EXPECT_EQ(Results()["annotations"][0]["file_name"], "p0.ids.png");
}

TEST_F(SegmentCommandTest, KeepsResultsOfFilesWithOneNameApart) {
  const std::string a = folder_.Write("x/a.png", PlainPicture(0));
  const std::string b = folder_.Write("y/a.png", PlainPicture(0));
  const ClientRun run = Segment({a, b});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(OutFiles(), UnorderedElementsAre("a.overlay.png", "a-2.overlay.png", "results.json"));
}

TEST_F(SegmentCommandTest, WritesNoPicturesWhenToldSo) {
  EXPECT_EQ(Segment(WritePictures(2), {"--json-only"}).exit_code, 0);
  EXPECT_THAT(OutFiles(), ElementsAre("results.json"));
  EXPECT_FALSE(Results()["images"][0].contains("overlay"));
}

TEST_F(SegmentCommandTest, AsksForAModelWhereThereAreSeveral) {
  server_.segmentation().AddModel(ShapesModel("streets"));
  const ClientRun run = Segment(WritePictures(1));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("--model: shapes, streets"));
  const ClientRun named = Segment(WritePictures(1), {"--model", "streets"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(Results()["info"]["model"], "streets");
}

TEST_F(SegmentCommandTest, FailsBeforeSendingWhenTheModelIsUnknown) {
  const ClientRun run = Segment(WritePictures(2), {"--model", "nothing"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "error: NOT_FOUND: no model nothing [MODEL_NOT_FOUND]\n");
  EXPECT_EQ(run.out, "");
}

TEST_F(SegmentCommandTest, FailsWhenAFolderHoldsNoPictures) {
  fs::create_directories(folder_.path() / "empty");
  const ClientRun run = Segment({folder_.path() / "empty"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("no pictures in"));
}

}  // namespace
}  // namespace deform::client
