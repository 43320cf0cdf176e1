#include "lifecycle/model_manager.h"

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/fake_model.h"
#include "support/fake_package.h"
#include "support/temporary_folder.h"

namespace deform::lifecycle {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::FakeManifest;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using testing::WriteFakePackage;

class ModelManagerTest : public ::testing::Test {
 protected:
  ModelManagerTest() {
    manager_.SetReadinessListener(
        [this](const std::string& name, bool ready) { told_.emplace_back(name, ready); });
  }

  // Acquires, expecting a refusal; its code, and its reason beside it.
  std::pair<absl::StatusCode, std::string> Refusal(const std::string& name, int64_t version = 0) {
    const absl::Status status = manager_.Acquire(name, version).status();
    const auto details = base::GetErrorDetails(status);
    return {status.code(), details ? details->reason : ""};
  }

  testing::TemporaryFolder repository_;
  testing::FakeModelLoader loader_;
  base::Metrics metrics_;
  ModelManager manager_{{repository_.path(), "cpu"}, &loader_, &metrics_};
  std::vector<std::pair<std::string, bool>> told_;
};

TEST_F(ModelManagerTest, ServesTheNewestVersionOfEachModelWarm) {
  WriteFakePackage(repository_.path(), "9", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "10", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "1", FakeManifest("b"));
  ASSERT_TRUE(manager_.LoadAll().ok());

  const auto model = manager_.Acquire("a", 0);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->name, "a");
  EXPECT_EQ((*model)->version, 10);
  EXPECT_EQ((*model)->manifest.labels[1].name, "grass");
  EXPECT_EQ((*model)->model->max_batch(), 8);
  EXPECT_THAT(loader_.loaded_folders(), ElementsAre(EndsWith("/a/10"), EndsWith("/b/1")));
  EXPECT_THAT(loader_.network("a")->batch_sizes(), ElementsAre(1, 8));
  EXPECT_TRUE(manager_.Ready());
  EXPECT_TRUE(manager_.ModelReady("a", 10));
}

TEST_F(ModelManagerTest, UnknownNamesAndVersionsAreNotFound) {
  WriteFakePackage(repository_.path(), "9", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "10", FakeManifest("a"));
  ASSERT_TRUE(manager_.LoadAll().ok());
  const std::pair<absl::StatusCode, std::string> not_found = {absl::StatusCode::kNotFound,
                                                              "MODEL_NOT_FOUND"};
  EXPECT_EQ(Refusal("b"), not_found);
  EXPECT_EQ(Refusal(""), not_found);
  EXPECT_EQ(Refusal("a/10"), not_found);
  EXPECT_EQ(Refusal("a", 9), not_found);
  EXPECT_EQ(Refusal("a", -1), not_found);
  EXPECT_FALSE(manager_.ModelReady("a", 9));
  EXPECT_FALSE(manager_.ModelReady("b", 0));
}

TEST_F(ModelManagerTest, ManyUnknownNamesAddNoMetricSeries) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  ASSERT_TRUE(manager_.LoadAll().ok());
  const auto lines = [&] {
    const std::string text = metrics_.Expose();
    return std::count(text.begin(), text.end(), '\n');
  };
  const auto before = lines();
  for (int i = 0; i < 10000; ++i) (void)manager_.Acquire("unknown" + std::to_string(i), 0);
  EXPECT_EQ(lines(), before);
}

TEST_F(ModelManagerTest, ABrokenPackageIsRefusedByNameWhileTheOthersServe) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  const auto damaged = WriteFakePackage(repository_.path(), "1", FakeManifest("b"));
  std::ofstream(damaged / "model.cpu.float32.pt2") << "fake networK\n";
  WriteFakePackage(repository_.path(), "1", FakeManifest("c"));
  ASSERT_TRUE(manager_.LoadAll().ok());

  EXPECT_TRUE(manager_.Acquire("a", 0).ok());
  EXPECT_TRUE(manager_.Acquire("c", 0).ok());
  const absl::Status status = manager_.Acquire("b", 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::GetErrorDetails(status)->reason, "MODEL_FAILED");
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("model \"b\" failed to load"));
  EXPECT_THAT(message, HasSubstr("\"model.cpu.float32.pt2\" has another SHA-256 sum"));
  EXPECT_THAT(message, Not(HasSubstr(repository_.path().string())));
  EXPECT_FALSE(manager_.Ready());
  EXPECT_FALSE(manager_.ModelReady("b", 0));
}

TEST_F(ModelManagerTest, ADamagedPackageIsNeverOpened) {
  const auto folder = WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  std::filesystem::resize_file(folder / "model.cpu.float32.pt2", 6);
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_TRUE(loader_.loaded_folders().empty());
}

TEST_F(ModelManagerTest, TheReasonOfALoadThatFailedIsKept) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  loader_.SetLoadStatus("a", absl::FailedPreconditionError("no artifact fits"));
  ASSERT_TRUE(manager_.LoadAll().ok());
  const auto list = manager_.List();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].name, "a");
  EXPECT_EQ(list[0].version, 1);
  EXPECT_EQ(list[0].state, ModelState::kFailed);
  EXPECT_EQ(list[0].reason, "no artifact fits");
}

TEST_F(ModelManagerTest, ANetworkThatFailsItsWarmUpIsUnloadedAndNotServed) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  loader_.network("a")->SetOutputs([](auto) -> absl::StatusOr<std::vector<engine::Tensor>> {
    return absl::InternalError("the network failed");
  });
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_THAT(std::string(manager_.Acquire("a", 0).status().message()),
              HasSubstr("the network failed"));
  EXPECT_EQ(loader_.network("a")->live_models(), 0);
}

TEST_F(ModelManagerTest, AManifestOfAnotherModelIsRefused) {
  const auto folder = WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  std::filesystem::rename(folder.parent_path(), repository_.path() / "b");
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_THAT(manager_.List().at(0).reason, HasSubstr("name: is \"a\""));
}

TEST_F(ModelManagerTest, AVersionWithoutAManifestIsRefused) {
  std::filesystem::create_directories(repository_.path() / "a/1");
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_EQ(manager_.List().at(0).reason, "package.json is missing or can't be read");
}

TEST_F(ModelManagerTest, AnEmptyRepositoryIsAnError) {
  EXPECT_EQ(manager_.LoadAll().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(manager_.Ready());
}

TEST_F(ModelManagerTest, WhileAModelLoadsItAndThoseAfterItAreUnavailable) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "1", FakeManifest("b"));
  loader_.network("a")->CloseGate();
  std::thread loading([&] { EXPECT_TRUE(manager_.LoadAll().ok()); });
  loader_.network("a")->WaitUntilRunning();

  const std::pair<absl::StatusCode, std::string> unavailable = {absl::StatusCode::kUnavailable,
                                                                "MODEL_LOADING"};
  EXPECT_EQ(Refusal("a"), unavailable);
  EXPECT_EQ(Refusal("b"), unavailable);
  EXPECT_EQ(Refusal("c").first, absl::StatusCode::kNotFound);
  EXPECT_EQ(manager_.List().at(1).state, ModelState::kLoading);
  EXPECT_FALSE(manager_.Ready());

  loader_.network("a")->OpenGate();
  loading.join();
  EXPECT_TRUE(manager_.Ready());
}

TEST_F(ModelManagerTest, TheListenerHearsOfEachModelAndThenOfTheWhole) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "1", FakeManifest("b"));
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_THAT(told_, ElementsAre(Pair("a", false), Pair("b", false), Pair("a", true),
                                 Pair("b", true), Pair("", true)));
}

TEST_F(ModelManagerTest, TheListenerNeverHearsThatTheWholeIsReadyWhenAModelFailed) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "1", FakeManifest("b"));
  loader_.SetLoadStatus("b", absl::InternalError("no"));
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_THAT(told_, ElementsAre(Pair("a", false), Pair("b", false), Pair("a", true)));
}

TEST_F(ModelManagerTest, TheListenerMayAskTheManager) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  std::vector<bool> ready;
  manager_.SetReadinessListener(
      [&](const std::string& name, bool) { ready.push_back(manager_.ModelReady(name, 0)); });
  ASSERT_TRUE(manager_.LoadAll().ok());
  EXPECT_THAT(ready, ElementsAre(false, true, false));
}

TEST_F(ModelManagerTest, AHandleKeepsItsVersionAfterTheManagerIsGone) {
  WriteFakePackage(repository_.path(), "1", FakeManifest("a"));
  ModelHandle handle;
  {
    ModelManager manager({repository_.path(), "cpu"}, &loader_, &metrics_);
    ASSERT_TRUE(manager.LoadAll().ok());
    handle = *manager.Acquire("a", 0);
  }
  EXPECT_EQ(loader_.network("a")->live_models(), 1);
  handle.reset();
  EXPECT_EQ(loader_.network("a")->live_models(), 0);
}

TEST_F(ModelManagerTest, LoadsAreCountedAndReadinessIsShown) {
  WriteFakePackage(repository_.path(), "3", FakeManifest("a"));
  WriteFakePackage(repository_.path(), "1", FakeManifest("b"));
  loader_.SetLoadStatus("b", absl::InternalError("no"));
  ASSERT_TRUE(manager_.LoadAll().ok());
  const std::string text = metrics_.Expose();
  EXPECT_THAT(text, HasSubstr(R"(deform_model_ready{model="a",version="3"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(deform_model_ready{model="b",version="1"} 0)"));
  EXPECT_THAT(text, HasSubstr(R"(deform_model_loads_total{model="a",result="ok"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(deform_model_loads_total{model="b",result="failed"} 1)"));
  for (const char* phase : {"verify", "load", "warm"}) {
    EXPECT_THAT(text, HasSubstr(std::string("deform_model_load_duration_seconds_count{model=\"a\","
                                            "phase=\"") +
                                phase + "\"} 1"));
  }
}

}  // namespace
}  // namespace deform::lifecycle
