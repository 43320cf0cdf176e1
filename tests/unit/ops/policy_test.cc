// The choice of backend as a table: for every GPU from SM 7.5 to 12.0, whether one is here or not.
#include "select/policy.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace deform::ops {
namespace {

using c10::ScalarType;

const std::vector<KernelTarget>& release_targets() {
  static const std::vector<KernelTarget> targets = [] {
    std::vector<KernelTarget> parsed;
    for (const char* text :
         {"80-real", "86-real", "89-real", "90a-real", "100-real", "100-virtual"}) {
      parsed.push_back(KernelTarget::parse(text));
    }
    return parsed;
  }();
  return targets;
}

Call call_on(int sm, ScalarType dtype = ScalarType::BFloat16, bool training = false) {
  return {Op::kMsda, c10::DeviceType::CUDA, sm, dtype, 32, 4, 4, training};
}

Capabilities everything() { return {release_targets(), "", {}}; }

std::string chosen(const Resolution& resolution) {
  return resolution.backend ? name_of(*resolution.backend) : "none";
}

struct Row {
  int sm;
  const char* backend;
  const char* rejected_cuda_because;  // part of the reason; null where cuda is chosen
  const char* note;                   // part of the first note; null where there is none
  bool float32_accumulation;          // for bfloat16 in training
};

class EveryGpu : public testing::TestWithParam<Row> {};

TEST_P(EveryGpu, TakesTheBackendOfTheTable) {
  const Row row = GetParam();
  for (const Op op : {Op::kMsda, Op::kAttn, Op::kConv}) {
    Call call = call_on(row.sm);
    call.op = op;
    const Resolution resolution = resolve(call, everything());
    EXPECT_EQ(chosen(resolution), row.backend) << name_of(op);
    if (row.rejected_cuda_because != nullptr) {
      ASSERT_EQ(resolution.rejected.size(), 1u);
      EXPECT_EQ(resolution.rejected[0].backend, Backend::kCuda);
      EXPECT_NE(resolution.rejected[0].reason.find(row.rejected_cuda_because), std::string::npos)
          << resolution.rejected[0].reason;
    } else {
      EXPECT_TRUE(resolution.rejected.empty());
    }
    if (row.note == nullptr) continue;
    ASSERT_FALSE(resolution.notes.empty());
    EXPECT_NE(resolution.notes[0].find(row.note), std::string::npos) << resolution.notes[0];
  }
}

TEST_P(EveryGpu, AccumulatesHalfPrecisionGradientsAsTheHardwareAllows) {
  const Row row = GetParam();
  for (const ScalarType dtype : {ScalarType::BFloat16, ScalarType::Half}) {
    const Resolution resolution = resolve(call_on(row.sm, dtype, /*training=*/true), everything());
    EXPECT_EQ(resolution.float32_accumulation, row.float32_accumulation);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sm, EveryGpu,
    testing::Values(Row{75, "jit", "needs SM 8.0 or later, but the GPU has SM 7.5", nullptr, true},
                    Row{80, "cuda", nullptr, "machine code of SM 8.0", true},
                    Row{86, "cuda", nullptr, "machine code of SM 8.6", true},
                    Row{87, "cuda", nullptr, "machine code of SM 8.6", true},
                    Row{89, "cuda", nullptr, "machine code of SM 8.9", true},
                    Row{90, "cuda", nullptr, "machine code of SM 9.0", false},
                    Row{100, "cuda", nullptr, "machine code of SM 10.0", false},
                    Row{103, "cuda", nullptr, "machine code of SM 10.0", false},
                    Row{110, "cuda", nullptr, "PTX of SM 10.0, compiled by the driver", false},
                    Row{120, "cuda", nullptr, "PTX of SM 10.0, compiled by the driver", false}),
    [](const testing::TestParamInfo<Row>& info) { return std::to_string(info.param.sm); });

TEST(Policy, OfAGpuBelowEveryBackendListsEachReason) {
  const Call call = call_on(70);
  const Resolution resolution = resolve(call, everything());
  EXPECT_FALSE(resolution.backend);
  EXPECT_EQ(describe_failure(call, resolution),
            "msda: no backend can run a call on cuda:\n"
            "  cuda: needs SM 8.0 or later, but the GPU has SM 7.0\n"
            "  jit: needs SM 7.5 or later, but the GPU has SM 7.0");
}

TEST(Policy, OperatorBuiltWithoutCudaKernelsHasNeitherBackend) {
  Capabilities capabilities = everything();
  capabilities.left_out[static_cast<size_t>(Op::kAttn)] = true;
  Call call = call_on(90);
  EXPECT_EQ(chosen(resolve(call, capabilities)), "cuda");
  call.op = Op::kAttn;
  const Resolution resolution = resolve(call, capabilities);
  EXPECT_EQ(chosen(resolution), "none");
  ASSERT_EQ(resolution.rejected.size(), 2u);
  for (const Rejection& rejection : resolution.rejected) {
    EXPECT_EQ(rejection.reason,
              "this build leaves out the CUDA kernels of attn (DEFORM_EXTENSIONS)");
  }
}

TEST(Policy, WithCudaDisabledTakesJitAndSaysWhy) {
  Capabilities capabilities = everything();
  capabilities.disabled[static_cast<size_t>(Backend::kCuda)] = true;
  const Resolution resolution = resolve(call_on(90), capabilities);
  EXPECT_EQ(chosen(resolution), "jit");
  ASSERT_EQ(resolution.rejected.size(), 1u);
  EXPECT_EQ(resolution.rejected[0].reason, "disabled");
}

TEST(Policy, NeverMovesACudaCallToEagerUnasked) {
  Capabilities capabilities{{}, "no NVRTC library found", {}};
  const Resolution resolution = resolve(call_on(90), capabilities);
  EXPECT_FALSE(resolution.backend);
  ASSERT_EQ(resolution.rejected.size(), 2u);
  EXPECT_NE(resolution.rejected[0].reason.find("has no CUDA kernels"), std::string::npos);
  EXPECT_EQ(resolution.rejected[1].reason, "no NVRTC library found");
}

TEST(Policy, OfKernelsForOneArchitectureAloneRejectsItsRelatives) {
  const Capabilities capabilities{{KernelTarget::parse("90a-real")}, "off", {}};
  EXPECT_EQ(chosen(resolve(call_on(90), capabilities)), "cuda");
  const Resolution resolution = resolve(call_on(100), capabilities);
  EXPECT_FALSE(resolution.backend);
  EXPECT_EQ(resolution.rejected[0].reason, "compiled for SM 9.0 alone, but the GPU has SM 10.0");
}

TEST(Policy, PrefersMachineCodeToPtxOfANewerArchitecture) {
  const Capabilities capabilities{
      {KernelTarget::parse("80-virtual"), KernelTarget::parse("80-real")}, "off", {}};
  EXPECT_EQ(resolve(call_on(86), capabilities).notes[0], "machine code of SM 8.0");
  EXPECT_EQ(resolve(call_on(90), capabilities).notes[0], "PTX of SM 8.0, compiled by the driver");
}

TEST(Policy, OnTheCpuTakesTheVectorisedKernelsForEveryType) {
  for (const ScalarType dtype :
       {ScalarType::Float, ScalarType::Half, ScalarType::BFloat16, ScalarType::Double}) {
    const Call call{Op::kConv, c10::DeviceType::CPU, 0, dtype, 64, 1, 9, true};
    const Resolution resolution = resolve(call, everything());
    EXPECT_EQ(chosen(resolution), "cpu");
    EXPECT_TRUE(resolution.float32_accumulation);
  }
}

TEST(Policy, OnAnyOtherDeviceTakesTensorOperations) {
  const Call call{Op::kAttn, c10::DeviceType::MPS, 0, ScalarType::Float, 16, 1, 9, false};
  EXPECT_EQ(chosen(resolve(call, everything())), "eager");
}

TEST(Policy, SaysWhyNativeAccumulationIsRefused) {
  const Resolution resolution =
      resolve(call_on(86, ScalarType::BFloat16, /*training=*/true), everything());
  ASSERT_EQ(resolution.notes.size(), 2u);
  EXPECT_NE(resolution.notes[1].find("SM 8.6 adds no bfloat16 atomically"), std::string::npos);
}

TEST(KernelTarget, RefusesWhatIsNoArchitecture) {
  for (const char* text : {"", "90", "a-real", "90b-real", "native", "90-", "5-real"}) {
    EXPECT_THROW(KernelTarget::parse(text), c10::Error) << text;
  }
}

TEST(Names, OfOperatorsAndBackendsAreFoundAgain) {
  for (const Backend backend : {Backend::kCuda, Backend::kJit, Backend::kCpu, Backend::kEager}) {
    EXPECT_EQ(backend_named(name_of(backend)), backend);
  }
  for (const Op op : {Op::kMsda, Op::kAttn, Op::kConv}) EXPECT_EQ(op_named(name_of(op)), op);
  EXPECT_EQ(backend_named("triton"), std::nullopt);
  EXPECT_EQ(op_named(""), std::nullopt);
}

}  // namespace
}  // namespace deform::ops
