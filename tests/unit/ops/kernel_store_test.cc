// Where run-time kernels come from: real compiles, for GPUs that needn't be here.
#include "jit/kernel_store.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "jit/sha256.h"
#include "support/temporary_folder.h"

namespace deform::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

KernelSource source(
    const std::string& text = "#include \"one.h\"\nextern \"C\" __global__ void k() { one(); }") {
  return {"twice", text, {{"one.h", "__device__ inline int one() { return ONE; }"}}, {"-DONE=1"}};
}

// What `run` throws, as text; "" where it doesn't.
template <class Run>
std::string error_of(Run run) {
  try {
    run();
    return "";
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
}

class KernelStoreTest : public ::testing::Test {
 protected:
  KernelStore store(CompilePolicy compile = CompilePolicy::kMissing) {
    settings_.compile = compile;
    return KernelStore(settings_, [](const std::string&) {});
  }

  void use_cache() { settings_.cache_folder = folder_.path() / "cache"; }

  // An index with the kernel of source() for SM 9.0, and that kernel.
  std::string use_index() {
    const FoundKernel found = store().find(source(), 90);
    settings_.index_folder = folder_.path() / "index";
    std::filesystem::create_directories(settings_.index_folder);
    std::ofstream(settings_.index_folder / (found.key + ".cubin"), std::ios::binary) << found.cubin;
    std::ofstream(settings_.index_folder / "SHA256SUMS")
        << sha256_hex("x") << "  other.cubin\n"
        << sha256_hex(found.cubin) << "  " << found.key << ".cubin\n";
    return found.cubin;
  }

  testing::TemporaryFolder folder_;
  KernelSettings settings_;
};

// Tests that compile. They skip where there is no NVRTC, which comes with a CUDA toolkit.
class KernelStoreWithCompilerTest : public KernelStoreTest {
 protected:
  void SetUp() override {
    if (!nvrtc_missing().empty()) GTEST_SKIP() << nvrtc_missing();
  }
};

TEST_F(KernelStoreWithCompilerTest, CompilesWhatIsMissingAndKeepsIt) {
  use_cache();
  const FoundKernel first = store().find(source(), 90);
  EXPECT_EQ(first.origin, KernelOrigin::kCompiled);
  EXPECT_THAT(first.cubin, StartsWith("\x7f"
                                      "ELF"));
  EXPECT_THAT(first.key, StartsWith("twice-sm90-"));
  const FoundKernel second = store().find(source(), 90);
  EXPECT_EQ(second.origin, KernelOrigin::kCache);
  EXPECT_EQ(second.cubin, first.cubin);
  EXPECT_EQ(store().find(source(), 80).origin, KernelOrigin::kCompiled);
}

TEST_F(KernelStoreWithCompilerTest, IndexComesBeforeACompileAndAfterTheCache) {
  const std::string cubin = use_index();
  EXPECT_EQ(store(CompilePolicy::kNever).find(source(), 90).cubin, cubin);
  EXPECT_EQ(store().find(source(), 90).origin, KernelOrigin::kIndex);
  EXPECT_EQ(store().find(source(), 80).origin, KernelOrigin::kCompiled);
  EXPECT_EQ(store(CompilePolicy::kAlways).find(source(), 90).origin, KernelOrigin::kCompiled);
  use_cache();
  store(CompilePolicy::kAlways).find(source(), 90);
  EXPECT_EQ(store().find(source(), 90).origin, KernelOrigin::kCache);
}

TEST_F(KernelStoreWithCompilerTest, KernelThatIsNotWhatTheIndexListsIsRefused) {
  use_index();
  const std::string key = kernel_key(source(), 90);
  const std::filesystem::path file = settings_.index_folder / (key + ".cubin");
  std::ofstream(file, std::ios::app) << "more";
  EXPECT_THAT(error_of([&] { store().find(source(), 90); }),
              AllOf(StartsWith("KernelDownloadError: " + key), HasSubstr("SHA256SUMS"),
                    HasSubstr("unset DEFORM_OPS_INDEX")));
  std::filesystem::remove(file);
  EXPECT_THAT(error_of([&] { store().find(source(), 90); }),
              AllOf(StartsWith("KernelDownloadError: "), HasSubstr("is missing")));
}

TEST_F(KernelStoreTest, IndexWithoutSumsIsRefused) {
  settings_.index_folder = folder_.path();
  EXPECT_THAT(error_of([&] { store().find(source(), 90); }),
              AllOf(StartsWith("KernelDownloadError: "), HasSubstr("has no SHA256SUMS")));
}

TEST_F(KernelStoreTest, NothingIsCompiledWhereTheVariableForbidsIt) {
  EXPECT_THAT(error_of([&] { store(CompilePolicy::kNever).find(source(), 90); }),
              AllOf(StartsWith("KernelNotProvidedError: twice for SM 9.0"),
                    HasSubstr("DEFORM_OPS_COMPILE=0")));
}

TEST_F(KernelStoreWithCompilerTest, CompileThatFailsShowsTheCompilersLogAndKeepsNothing) {
  use_cache();
  EXPECT_THAT(error_of([&] { store().find(source("not a kernel"), 90); }),
              AllOf(StartsWith("KernelBuildError: twice for SM 9.0"), HasSubstr("error")));
  EXPECT_THAT(error_of([&] { store(CompilePolicy::kNever).find(source("not a kernel"), 90); }),
              StartsWith("KernelNotProvidedError"));
  EXPECT_THAT(error_of([&] { store().find(source(), 13); }), StartsWith("KernelBuildError"));
}

TEST_F(KernelStoreWithCompilerTest, RebuildCompilesEachKernelOnceMore) {
  use_cache();
  store().find(source(), 90);
  const std::filesystem::path entry =
      settings_.cache_folder / (kernel_key(source(), 90) + ".kernel");
  std::filesystem::last_write_time(entry,
                                   std::filesystem::last_write_time(entry) - std::chrono::hours(1));
  KernelStore rebuilding = store(CompilePolicy::kRebuild);
  EXPECT_EQ(rebuilding.find(source(), 90).origin, KernelOrigin::kCompiled);
  EXPECT_EQ(rebuilding.find(source(), 90).origin, KernelOrigin::kCache);
}

TEST_F(KernelStoreWithCompilerTest, OptimizationLevelMakesAnotherKernel) {
  use_cache();
  store().find(source(), 90);
  settings_.optimization = "0";
  EXPECT_EQ(store().find(source(), 90).origin, KernelOrigin::kCompiled);
}

TEST(KernelKey, DiffersInWhateverMakesAnotherKernel) {
  const std::string key = kernel_key(source(), 90);
  EXPECT_EQ(kernel_key(source(), 90), key);
  EXPECT_NE(kernel_key(source(), 80), key);
  const auto changed = [&](auto change) {
    KernelSource other = source();
    change(other);
    return kernel_key(other, 90);
  };
  EXPECT_NE(changed([](KernelSource& s) { s.text += " "; }), key);
  EXPECT_NE(changed([](KernelSource& s) { s.name = "once"; }), key);
  EXPECT_NE(changed([](KernelSource& s) { s.options[0] = "-DONE=2"; }), key);
  EXPECT_NE(changed([](KernelSource& s) { s.headers[0].second += " "; }), key);
  EXPECT_NE(changed([](KernelSource& s) { s.headers[0].first += "h"; }), key);
  // The same letters at other boundaries.
  EXPECT_NE(changed([](KernelSource& s) { s.options = {"-D", "ONE=1"}; }), key);
}

TEST_F(KernelStoreTest, SaysWhyNothingCanComeFromIt) {
  EXPECT_THAT(store(CompilePolicy::kNever).missing(), HasSubstr("DEFORM_OPS_COMPILE=0"));
  EXPECT_EQ(store().missing(), nvrtc_missing());
  settings_.index_folder = folder_.path();
  EXPECT_THAT(store(CompilePolicy::kNever).missing(), IsEmpty());
  settings_.index_folder.clear();
  use_cache();
  std::filesystem::create_directories(settings_.cache_folder);
  EXPECT_THAT(store(CompilePolicy::kNever).missing(), HasSubstr("DEFORM_OPS_COMPILE=0"));
  std::ofstream(settings_.cache_folder / "key.kernel") << "some kernel";
  EXPECT_THAT(store(CompilePolicy::kNever).missing(), IsEmpty());
}

TEST(KernelSettings, VariableWithAnotherValueIsNamed) {
  setenv("DEFORM_OPS_COMPILE", "yes", 1);
  EXPECT_THAT(error_of([] { KernelSettings::from_environment(); }),
              HasSubstr("DEFORM_OPS_COMPILE must be 0, 1, always or rebuild, but is yes"));
  unsetenv("DEFORM_OPS_COMPILE");
  for (const char* level : {"4", "-1", "fast"}) {
    setenv("DEFORM_OPS_OPT_LEVEL", level, 1);
    EXPECT_THAT(error_of([] { KernelSettings::from_environment(); }),
                HasSubstr("DEFORM_OPS_OPT_LEVEL must be 0, 1, 2 or 3, but is "));
  }
  unsetenv("DEFORM_OPS_OPT_LEVEL");
}

TEST(KernelSettings, VariablesAreRead) {
  setenv("DEFORM_OPS_COMPILE", "rebuild", 1);
  setenv("DEFORM_OPS_OPT_LEVEL", "1", 1);
  setenv("DEFORM_OPS_CACHE_DIR", "/cache", 1);
  setenv("DEFORM_OPS_INDEX", "/index", 1);
  KernelSettings settings = KernelSettings::from_environment();
  EXPECT_EQ(settings.compile, CompilePolicy::kRebuild);
  EXPECT_EQ(settings.optimization, "1");
  EXPECT_EQ(settings.cache_folder, "/cache");
  EXPECT_EQ(settings.index_folder, "/index");
  setenv("DEFORM_OPS_INDEX", "https://kernels.example/v1", 1);
  EXPECT_THAT(KernelSettings::from_environment().index_folder.string(), IsEmpty());
  for (const char* name : {"COMPILE", "OPT_LEVEL", "CACHE_DIR", "INDEX"}) {
    unsetenv((std::string("DEFORM_OPS_") + name).c_str());
  }
}

}  // namespace
}  // namespace deform::ops
