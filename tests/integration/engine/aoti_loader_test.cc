#include <dlfcn.h>

#include <thread>

#include "base/error.h"
#include "gmock/gmock.h"
#include "toy_package.h"

// torch's archive reader forgets a few bytes when it refuses a file.
extern "C" const char* __lsan_default_suppressions() { return "leak:mz_zip_reader_init"; }

namespace deform::engine {
namespace {

using ::testing::HasSubstr;

class AotiLoaderTest : public ToyPackageTest {
 protected:
  void SetUp() override {
    auto loader = MakeAotiLoader({.op_library = DEFORM_TOY_OPS});
    ASSERT_TRUE(loader.ok()) << loader.status();
    loader_ = *std::move(loader);
    // As where the expected values were computed.
    SetIntraOpThreads(1);
  }

  std::unique_ptr<Model> LoadToy() {
    auto model = loader_->Load(Manifest(), package(), "cpu");
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }

  std::unique_ptr<ModelLoader> loader_;
};

TEST_F(AotiLoaderTest, EveryBatchGivesWhatPythonComputesBitForBit) {
  const auto model = LoadToy();
  ASSERT_NE(model, nullptr);
  const Tensor pictures = Read("pixel_values", {8, 3, 8, 8});
  for (int64_t batch = 1; batch <= 8; ++batch) {
    const auto outputs = model->Run({pictures.Rows(0, batch)});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    ASSERT_EQ(outputs->size(), 2u);
    const std::string suffix = "_" + std::to_string(batch);
    EXPECT_EQ((*outputs)[0].shape(), (std::vector<int64_t>{batch, 4, 3}));
    EXPECT_EQ((*outputs)[1].shape(), (std::vector<int64_t>{batch, 4, 2, 2}));
    EXPECT_EQ(Values((*outputs)[0]), Values(Read("classes" + suffix, {batch, 4, 3})));
    EXPECT_EQ(Values((*outputs)[1]), Values(Read("masks" + suffix, {batch, 4, 2, 2})));
  }
}

TEST_F(AotiLoaderTest, TheCompiledNetworkAgreesWithTheUncompiledOne) {
  const auto model = LoadToy();
  ASSERT_NE(model, nullptr);
  const auto outputs = model->Run({Read("pixel_values", {8, 3, 8, 8})});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const auto expect_near = [](const Tensor& got, const Tensor& expected) {
    for (int64_t i = 0; i < expected.element_count(); ++i)
      EXPECT_NEAR(got.data_as<float>()[i], expected.data_as<float>()[i], 1e-5);
  };
  expect_near((*outputs)[0], Read("eager_classes", {8, 4, 3}));
  expect_near((*outputs)[1], Read("eager_masks", {8, 4, 2, 2}));
}

TEST_F(AotiLoaderTest, OutputsOutliveTheModel) {
  auto model = LoadToy();
  ASSERT_NE(model, nullptr);
  const auto outputs = model->Run({Read("pixel_values", {8, 3, 8, 8})});
  ASSERT_TRUE(outputs.ok());
  model.reset();
  EXPECT_EQ(Values((*outputs)[1]), Values(Read("masks_8", {8, 4, 2, 2})));
}

TEST_F(AotiLoaderTest, ANetworkOnTheCpuRunsWithoutAFolder) {
  const auto first = LoadToy();
  const auto second = LoadToy();
  EXPECT_EQ(FoldersLeft(), 0);
  const Tensor pictures = Read("pixel_values", {8, 3, 8, 8});
  for (Model* model : {first.get(), second.get()}) {
    const auto outputs = model->Run({pictures});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ(Values((*outputs)[0]), Values(Read("classes_8", {8, 4, 3})));
  }
  EXPECT_EQ(FoldersLeft(), 0);
}

TEST_F(AotiLoaderTest, NetworksMayBeLoadedByManyThreadsAtOnce) {
  std::vector<std::unique_ptr<Model>> models(4);
  std::vector<std::thread> threads;
  for (auto& model : models) threads.emplace_back([&] { model = LoadToy(); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& model : models) {
    ASSERT_NE(model, nullptr);
    const auto outputs = model->Run({Read("pixel_values", {8, 3, 8, 8})});
    ASSERT_TRUE(outputs.ok());
    EXPECT_EQ(Values((*outputs)[0]), Values(Read("classes_8", {8, 4, 3})));
  }
}

TEST_F(AotiLoaderTest, InputsThatDontFitNeverReachTheNetwork) {
  const auto model = LoadToy();
  ASSERT_NE(model, nullptr);
  for (const Tensor& input :
       {Tensor::Allocate(DType::kFloat32, {9, 3, 8, 8}),
        Tensor::Allocate(DType::kFloat32, {1, 3, 16, 8}),
        Tensor::Allocate(DType::kFloat64, {1, 3, 8, 8}), Tensor::Allocate(DType::kFloat32, {8, 8}),
        Tensor::Allocate(DType::kFloat32, {0, 3, 8, 8})}) {
    EXPECT_EQ(model->Run({input}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(AotiLoaderTest, TheSmallerMaximumOfManifestAndArtifactCounts) {
  PackageManifest manifest = Manifest();
  manifest.artifacts[0].max_batch = 4;
  EXPECT_EQ((*loader_->Load(manifest, package(), "cpu"))->max_batch(), 4);
  manifest.artifacts[0].max_batch = 8;
  manifest.max_batch = 2;
  EXPECT_EQ((*loader_->Load(manifest, package(), "cpu"))->max_batch(), 2);
}

TEST_F(AotiLoaderTest, TheNumberOfThreadsHoldsInWhateverThreadRunsTheNetwork) {
  const auto model = LoadToy();
  ASSERT_NE(model, nullptr);
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  ASSERT_NE(max_threads, nullptr);
  const Tensor picture = Read("pixel_values", {8, 3, 8, 8}).Rows(0, 1);
  const auto threads_after_a_run = [&] {
    EXPECT_TRUE(model->Run({picture}).ok());
    return max_threads();
  };
  for (const int threads : {3, 1, 2}) {
    SetIntraOpThreads(threads);
    EXPECT_EQ(threads_after_a_run(), threads) << "in this thread";
    int elsewhere = 0;
    std::thread([&] { elsewhere = threads_after_a_run(); }).join();
    EXPECT_EQ(elsewhere, threads) << "in a new thread";
  }
}

TEST_F(AotiLoaderTest, OutputsUnlikeTheManifestAreNamed) {
  const Tensor picture = Read("pixel_values", {8, 3, 8, 8}).Rows(0, 1);
  const auto run = [&](const PackageManifest& manifest) {
    const auto model = loader_->Load(manifest, package(), "cpu");
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->Run({picture}).status();
  };
  PackageManifest swapped = Manifest();
  std::swap(swapped.outputs[0], swapped.outputs[1]);
  EXPECT_EQ(run(swapped), absl::InternalError("output `masks_queries_logits` of the network has "
                                              "the shape [1, 4, 3], the manifest says "
                                              "[1, 4, 2, 2]"));
  PackageManifest retyped = Manifest();
  retyped.outputs[1].dtype = DType::kFloat16;
  EXPECT_EQ(run(retyped),
            absl::InternalError("output `masks_queries_logits` of the network has another dtype "
                                "than float16, which the manifest says"));
  PackageManifest shortened = Manifest();
  shortened.outputs.pop_back();
  EXPECT_EQ(run(shortened), absl::InternalError("the network has 2 outputs, the manifest says 1"));
}

TEST_F(AotiLoaderTest, AnArtifactThatFitsIsFoundBehindOnesThatDont) {
  PackageManifest manifest = Manifest("damaged/half.pt2");
  manifest.artifacts[0].isa = "avx2";
  manifest.artifacts.push_back(Manifest().artifacts[0]);
  EXPECT_TRUE(loader_->Load(manifest, package(), "cpu").ok());
}

TEST_F(AotiLoaderTest, DevicesThatAreNoneAreRefused) {
  for (const char* device : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "tpu", "CPU"}) {
    EXPECT_EQ(loader_->Load(Manifest(), package(), device).status().code(),
              absl::StatusCode::kInvalidArgument)
        << device;
  }
}

TEST_F(AotiLoaderTest, AGpuThatIsNotThereIsRefused) {
  const absl::Status status = loader_->Load(Manifest(), package(), "cuda:99").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::GetErrorDetails(status)->reason, "NO_BACKEND");
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no GPU cuda:99"));
}

struct Damage {
  const char* file;
  const char* reason;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.file; }

class DamagedPackageTest : public AotiLoaderTest, public ::testing::WithParamInterface<Damage> {};

TEST_P(DamagedPackageTest, IsRefusedByNameAndLeavesNothing) {
  const std::string file = std::string(GetParam().file) + ".pt2";
  const absl::Status status = loader_->Load(Manifest(file), package() / "damaged", "cpu").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(base::GetErrorDetails(status)->reason, "NO_BACKEND");
  EXPECT_EQ(status.message(), "no artifact runs on cpu: \"" + file + "\" " + GetParam().reason);
  EXPECT_EQ(FoldersLeft(), 0);
  EXPECT_NE(LoadToy(), nullptr) << "a good network loads after a bad one";
}

INSTANTIATE_TEST_SUITE_P(
    All, DamagedPackageTest,
    ::testing::Values(Damage{"empty_file", "is not a whole .pt2 archive"},
                      Damage{"half", "is not a whole .pt2 archive"},
                      Damage{"random", "is not a whole .pt2 archive"},
                      Damage{"empty_archive", "is not a whole .pt2 archive"},
                      Damage{"other_archive", "is not a whole .pt2 archive"},
                      Damage{"other_archive_of_two", "is not a whole .pt2 archive"},
                      Damage{"no_network", "holds no network"},
                      Damage{"source_only", "holds no network"},
                      Damage{"no_metadata", "doesn't say for which machine it was compiled"},
                      Damage{"text_metadata", "doesn't say for which machine it was compiled"},
                      Damage{"random_library", "holds a damaged network"},
                      Damage{"half_library", "holds a damaged network"},
                      Damage{"other_library", "can't be opened (the log says why)"},
                      Damage{"isa_lacked", "is compiled for AVX1024, which this CPU lacks"},
                      Damage{"isa_unnamed", "doesn't say for which CPU it was compiled"},
                      Damage{"device_cuda", "is compiled for cuda, the manifest says cpu"},
                      Damage{"machine_arm", "is compiled for aarch64 linux, not x86_64 linux"},
                      Damage{"missing", "is not a whole .pt2 archive"}),
    [](const auto& info) { return std::string(info.param.file); });

}  // namespace
}  // namespace deform::engine
