#include "fake_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::client {
namespace {

using testing::HasSubstr;

TEST(ModelsCommand, ListsEveryPageWithWhatEachModelDoes) {
  FakeServer server;
  server.segmentation().AddModel(ShapesModel("shapes"));
  server.segmentation().AddModel(ShapesModel("streets"));
  segmentation::v1::GetModelResponse failed;
  failed.mutable_summary()->set_name("broken");
  failed.mutable_summary()->set_version(1);
  failed.mutable_summary()->set_state(segmentation::v1::MODEL_STATE_FAILED);
  failed.mutable_summary()->set_reason("a checksum doesn't hold");
  server.segmentation().AddModel(failed);

  const ClientRun run = RunClient({"models", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            "NAME     VERSION  STATE   TASKS               INPUT    LABELS  DEVICE\n"
            "shapes         3  ready   instance, panoptic  320×256       2  cpu\n"
            "streets        3  ready   instance, panoptic  320×256       2  cpu\n"
            "broken         1  failed  -                   -             -  -\n"
            "broken version 1: a checksum doesn't hold\n");
}

TEST(ModelsCommand, DescribesOneModelWithItsLabels) {
  FakeServer server;
  server.segmentation().AddModel(ShapesModel("shapes"));
  const ClientRun run = RunClient({"models", "shapes", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out,
            "shapes version 3, ready\n"
            "Shapes on textured grounds.\n"
            "\n"
            "architecture  mask2former\n"
            "tasks         instance, panoptic\n"
            "input         320×256\n"
            "max batch     8\n"
            "device        cpu\n"
            "labels        2\n"
            "\n"
            "  ID  CATEGORY  KIND   NAME   COLOR\n"
            "   0         1  thing  disk   #DC143C\n"
            "  13       110  stuff  grass  #6B8E23\n");
}

TEST(ModelsCommand, SaysWhichModelIsntThere) {
  FakeServer server;
  server.segmentation().AddModel(ShapesModel("shapes"));
  const ClientRun run = RunClient({"models", "streets", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.err, "error: NOT_FOUND: no model streets [MODEL_NOT_FOUND]\n");
}

TEST(ModelsCommand, SaysWhenThereAreNone) {
  FakeServer server;
  const ClientRun run = RunClient({"models", "--address", server.address()});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.out, "no models\n");
}

TEST(ModelsCommand, FailsWithoutAServer) {
  std::string address;
  { address = FakeServer().address(); }
  const ClientRun run = RunClient({"models", "--address", address});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("UNAVAILABLE"));
}

}  // namespace
}  // namespace deform::client
