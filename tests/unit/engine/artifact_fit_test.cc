#include "engine/aoti/artifact_fit.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deform::engine {
namespace {

using Metadata = std::map<std::string, std::string>;
using ::testing::ElementsAre;
using ::testing::Field;

ArtifactSpec Cpu(const std::string& isa) {
  return {.file = isa,
          .device = "cpu",
          .isa = isa,
          .sm = "",
          .dtype = "float32",
          .min_batch = 1,
          .max_batch = 8,
          .torch_version = "2.11.0",
          .ops = {}};
}

ArtifactSpec Cuda(const std::string& sm) {
  ArtifactSpec artifact = Cpu("");
  artifact.device = "cuda";
  artifact.sm = sm;
  return artifact;
}

Host CpuHost(std::set<std::string> isas = {"AVX2"}) {
  return {.device = "cpu",
          .cpu_isas = std::move(isas),
          .compute_capability = "",
          .torch_version = "2.11.0"};
}

Host CudaHost(const std::string& capability) {
  Host host = CpuHost();
  host.device = "cuda";
  host.compute_capability = capability;
  return host;
}

Metadata Compiled(const std::string& device, const std::string& isa,
                  const std::string& capability) {
  return {{"AOTI_DEVICE_KEY", device},
          {"AOTI_PLATFORM", "linux"},
          {"AOTI_MACHINE", "x86_64"},
          {"AOTI_CPU_ISA", isa},
          {"AOTI_COMPUTE_CAPABILITY", capability}};
}

TEST(ArtifactFitTest, WhatWasMadeForThisHostFits) {
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), CpuHost()), "");
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), Compiled("cpu", "AVX2", ""), CpuHost()), "");
  EXPECT_EQ(WhyUnfit(Cpu(""), CpuHost()), "");
  EXPECT_EQ(WhyUnfit(Cuda("90"), CudaHost("90")), "");
  EXPECT_EQ(WhyUnfit(Cuda("90"), Compiled("cuda", "AVX2", "90"), CudaHost("90")), "");
}

TEST(ArtifactFitTest, TheManifestAloneRefuses) {
  EXPECT_EQ(WhyUnfit(Cuda("90"), CpuHost()), "is for cuda");
  EXPECT_EQ(WhyUnfit(Cpu(""), CudaHost("90")), "is for cpu");
  EXPECT_EQ(WhyUnfit(Cpu("avx512"), CpuHost()), "needs AVX512, which this CPU lacks");
  EXPECT_EQ(WhyUnfit(Cuda("80"), CudaHost("90")), "is for compute capability 80, this GPU has 90");
  ArtifactSpec artifact = Cpu("avx2");
  artifact.min_batch = 2;
  EXPECT_EQ(WhyUnfit(artifact, CpuHost()), "takes batches of 2 and more, never of 1");
}

TEST(ArtifactFitTest, TheTorchVersionMustBeThisOneWhateverItsBuild) {
  ArtifactSpec artifact = Cpu("avx2");
  artifact.torch_version = "2.11.0+cu130";
  EXPECT_EQ(WhyUnfit(artifact, CpuHost()), "");
  for (const char* version : {"2.10.0", "2.11.1", "2.11", ""}) {
    artifact.torch_version = version;
    EXPECT_EQ(WhyUnfit(artifact, CpuHost()),
              "is for torch " + std::string(version) + ", this server has 2.11.0");
  }
}

TEST(ArtifactFitTest, ACompiledInstructionSetThatTheHostLacksIsNamed) {
  const Host host = CpuHost({"AVX2", "AVX512"});
  EXPECT_EQ(WhyUnfit(Cpu("avx512"), Compiled("cpu", "AVX512 AVX512_VNNI", ""), host),
            "is compiled for AVX512_VNNI, which this CPU lacks");
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), Compiled("cpu", "SVE", ""), host),
            "is compiled for SVE, which this CPU lacks");
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), Compiled("cpu", "AVX512", ""), host),
            "is compiled for AVX512, the manifest says avx2");
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), Compiled("cpu", "", ""), host),
            "doesn't say for which CPU it was compiled");
}

TEST(ArtifactFitTest, ACompiledComputeCapabilityOfAnotherGpuIsNamed) {
  EXPECT_EQ(WhyUnfit(Cuda("90"), Compiled("cuda", "AVX2", "80"), CudaHost("90")),
            "is compiled for compute capability \"80\", the manifest says \"90\"");
  EXPECT_EQ(WhyUnfit(Cuda("90"), Compiled("cuda", "AVX2", ""), CudaHost("90")),
            "is compiled for compute capability \"\", the manifest says \"90\"");
}

TEST(ArtifactFitTest, TheCpuSideOfACudaNetworkMustFitToo) {
  EXPECT_EQ(WhyUnfit(Cuda("90"), Compiled("cuda", "AVX512", "90"), CudaHost("90")),
            "is compiled for AVX512, which this CPU lacks");
}

TEST(ArtifactFitTest, MetadataThatIsMissingIsNotTakenForAFit) {
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), Metadata{}, CpuHost()),
            "is compiled for an unnamed device, the manifest says cpu");
  Metadata metadata = Compiled("cpu", "AVX2", "");
  metadata["AOTI_MACHINE"] = "aarch64";
  EXPECT_EQ(WhyUnfit(Cpu("avx2"), metadata, CpuHost()),
            "is compiled for aarch64 linux, not x86_64 linux");
}

TEST(ArtifactFitTest, WiderVectorsComeFirstAndEqualsAsListed) {
  PackageManifest manifest;
  manifest.artifacts = {Cpu(""), Cpu("avx2"), Cuda("90"), Cpu("avx512")};
  EXPECT_THAT(
      ByPreference(manifest),
      ElementsAre(Field(&ArtifactSpec::isa, "avx512"), Field(&ArtifactSpec::isa, "avx2"),
                  Field(&ArtifactSpec::device, "cpu"), Field(&ArtifactSpec::device, "cuda")));
}

TEST(ArtifactFitTest, ACpuOfWideVectorsHasTheNarrowOnes) {
  const std::set<std::string> isas = CpuIsas();
  EXPECT_TRUE(isas.contains("INVALID_VEC_ISA"));
  if (isas.contains("AMX_TILE") || isas.contains("AVX512_VNNI")) {
    EXPECT_TRUE(isas.contains("AVX512"));
  }
  if (isas.contains("AVX512")) {
    EXPECT_TRUE(isas.contains("AVX2"));
  }
}

}  // namespace
}  // namespace deform::engine
