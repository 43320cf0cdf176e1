#include "engine/package_manifest.h"

#include "base/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/fake_package.h"

namespace deform::engine {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PackageManifestTest, AWholeManifestReadsAsWritten) {
  const auto manifest = ParsePackageManifest(testing::FakeManifest("shapes").dump());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->name, "shapes");
  EXPECT_EQ(manifest->architecture, Architecture::kMask2Former);
  EXPECT_EQ(manifest->tasks,
            (std::vector<Task>{Task::kInstance, Task::kSemantic, Task::kPanoptic}));
  EXPECT_TRUE(manifest->Supports(Task::kPanoptic));
  EXPECT_FALSE(manifest->Supports(Task::kDetection));
  ASSERT_NE(manifest->FindLabel(1), nullptr);
  EXPECT_EQ(manifest->FindLabel(1)->name, "grass");
  EXPECT_EQ(manifest->FindLabel(1)->category_id, 2);
  EXPECT_EQ(manifest->FindLabel(1)->is_thing, false);
  EXPECT_EQ(manifest->FindLabel(0)->color, (std::array<uint8_t, 3>{220, 20, 60}));
  EXPECT_EQ(manifest->FindLabel(2), nullptr);
  EXPECT_EQ(manifest->preprocess.mode, PreprocessSpec::Mode::kExact);
  EXPECT_EQ(manifest->preprocess.height, 8);
  EXPECT_EQ(manifest->preprocess.std[2], 0.25);
  EXPECT_EQ(manifest->postprocess.fuse_label_ids, std::vector<int32_t>{1});
  EXPECT_EQ(manifest->postprocess.overlap_mask_area_threshold, 0.8f);
  EXPECT_EQ(manifest->outputs[1].name, "masks_queries_logits");
  EXPECT_EQ(manifest->outputs[1].shape, (std::vector<int64_t>{-1, 4, 2, 2}));
  ASSERT_EQ(manifest->artifacts.size(), 1u);
  EXPECT_EQ(manifest->artifacts[0].isa, "avx2");
  EXPECT_EQ(manifest->artifacts[0].sm, "");
  EXPECT_EQ(manifest->artifacts[0].ops, std::vector<std::string>{"deform::msda"});
  EXPECT_EQ(manifest->files.at("model.cpu.float32.pt2").bytes, 13);
}

TEST(PackageManifestTest, ADetectorWithPixelMaskReads) {
  json manifest = testing::FakeManifest();
  manifest["architecture"] = "deformable_detr";
  manifest["tasks"] = {"DETECTION"};
  manifest["labels"][0]["is_thing"] = nullptr;
  manifest["preprocess"]["mode"] = "fit";
  manifest["preprocess"]["pixel_mask"] = true;
  manifest["inputs"].push_back({{"name", "pixel_mask"}, {"dtype", "int64"}, {"shape", {-1, 8, 8}}});
  manifest["outputs"] = {{{"name", "logits"}, {"dtype", "float32"}, {"shape", {-1, 4, 2}}},
                         {{"name", "pred_boxes"}, {"dtype", "float32"}, {"shape", {-1, 4, 4}}}};
  const auto parsed = ParsePackageManifest(manifest.dump());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->FindLabel(0)->is_thing, std::nullopt);
  EXPECT_EQ(parsed->preprocess.mode, PreprocessSpec::Mode::kFit);
}

TEST(PackageManifestTest, TheDescriptionMayBeLeftOut) {
  json manifest = testing::FakeManifest();
  manifest.erase("description");
  EXPECT_TRUE(ParsePackageManifest(manifest.dump()).ok());
}

// One change to a good manifest, and the fault that must be named for it.
struct Fault {
  const char* name;
  const char* pointer;  // JSON pointer of what is replaced
  json value;
  const char* path;
  const char* description;  // a part of it
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class ManifestFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(ManifestFaultTest, IsNamedByItsPath) {
  json manifest = testing::FakeManifest();
  manifest[json::json_pointer(GetParam().pointer)] = GetParam().value;
  const absl::Status status = ParsePackageManifest(manifest.dump()).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  const auto details = base::GetErrorDetails(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, "PACKAGE_INVALID");
  EXPECT_THAT(
      details->field_violations,
      ::testing::Contains(AllOf(
          ::testing::Field(&base::FieldViolation::field, GetParam().path),
          ::testing::Field(&base::FieldViolation::description, HasSubstr(GetParam().description)))))
      << status;
}

INSTANTIATE_TEST_SUITE_P(
    All, ManifestFaultTest,
    ::testing::Values(
        Fault{"NewerSchema", "/schema_version", 2, "schema_version", "is 2"},
        Fault{"NameWithASeparator", "/name", "a/b", "name", "must be"},
        Fault{"NameWithADot", "/name", "a.image", "name", "must be"},
        Fault{"NameWithALeadingDash", "/name", "-a", "name", "must be"},
        Fault{"NameOfNothing", "/name", "", "name", "must be"},
        Fault{"UnknownArchitecture", "/architecture", "yolo", "architecture", "one of"},
        Fault{"UnknownTask", "/tasks/0", "TRACKING", "tasks[0]", "is none of"},
        Fault{"TaskOfAnotherArchitecture", "/tasks/0", "DETECTION", "tasks[0]", "architecture"},
        Fault{"TaskTwice", "/tasks/0", "SEMANTIC", "tasks[0]", "more than once"},
        Fault{"NoTask", "/tasks", json::array(), "tasks", "is empty"},
        Fault{"PanopticWithoutThings", "/labels/0/is_thing", nullptr, "tasks[2]", "is_thing"},
        Fault{"NoLabel", "/labels", json::array(), "labels", "is empty"},
        Fault{"LabelIdTwice", "/labels/1/id", 0, "labels[1].id", "second time"},
        Fault{"LabelIdOfNoClass", "/labels/1/id", 2, "labels[1].id", "num_classes"},
        Fault{"LabelIdAsText", "/labels/1/id", "1", "labels[1].id", "whole number"},
        Fault{"LabelIdBeyond64Bits", "/labels/1/id", 18446744073709551615ull, "labels[1].id",
              "whole number"},
        Fault{"LabelWithoutAName", "/labels/0/name", "", "labels[0].name", "is empty"},
        Fault{"ColorOutOfRange", "/labels/0/color", {0, 0, 256}, "labels[0].color[2]", "256"},
        Fault{"ColorOfTwo", "/labels/0/color", {0, 0}, "labels[0].color", "three"},
        Fault{"UnknownKeyOfALabel", "/labels/0/colour", 1, "labels[0].colour", "not a known key"},
        Fault{"UnknownKey", "/extra", 1, "extra", "not a known key"},
        Fault{"UnknownMode", "/preprocess/mode", "crop", "preprocess.mode", "exact, fit"},
        Fault{"UnknownResampling", "/preprocess/resample", "nearest", "preprocess.resample",
              "bilinear"},
        Fault{"HeightOfZero", "/preprocess/height", 0, "preprocess.height", "is 0"},
        Fault{"RescaleOfZero", "/preprocess/rescale_factor", 0, "preprocess.rescale_factor", "0"},
        Fault{"StdOfZero", "/preprocess/std/1", 0, "preprocess.std[1]", "above 0"},
        Fault{"MeanOfFour", "/preprocess/mean", {0, 0, 0, 0}, "preprocess.mean", "must have 3"},
        Fault{"PixelMaskOfASegmenter", "/preprocess/pixel_mask", true, "preprocess.pixel_mask",
              "mask2former"},
        Fault{"PreprocessAsArray", "/preprocess", json::array(), "preprocess", "an object"},
        Fault{"ThresholdAboveOne", "/postprocess/score_threshold", 1.5,
              "postprocess.score_threshold", "0 to 1"},
        Fault{"ThresholdNull", "/postprocess/mask_threshold", nullptr, "postprocess.mask_threshold",
              "a number"},
        Fault{"UnknownCompat", "/postprocess/compat", "hf", "postprocess.compat", "HF"},
        Fault{"FusedLabelThatIsNone",
              "/postprocess/fuse_label_ids",
              {7},
              "postprocess.fuse_label_ids[0]",
              "label"},
        Fault{"BatchOfZero", "/max_batch", 0, "max_batch", "is 0"},
        Fault{"InputOfAnotherName", "/inputs/0/name", "x", "inputs[0].name", "pixel_values"},
        Fault{"InputOfAnotherSize",
              "/inputs/0/shape",
              {-1, 3, 8, 9},
              "inputs[0].shape",
              "[-1, 3, 8, 8]"},
        Fault{"InputOfFixedBatch", "/inputs/0/shape", {2, 3, 8, 8}, "inputs[0].shape", "-1"},
        Fault{"InputOfUnknownDType", "/inputs/0/dtype", "float", "inputs[0].dtype", "dtype"},
        Fault{"InputOfAnotherDType", "/inputs/0/dtype", "uint8", "inputs[0].dtype", "float32"},
        Fault{"OutputOfOtherQueries",
              "/outputs/0/shape",
              {-1, 5, 3},
              "outputs[0].shape",
              "[-1, 4, 3]"},
        Fault{"OutputOfNoMaskSize",
              "/outputs/1/shape",
              {-1, 4, 0, 2},
              "outputs[1].shape",
              "positive"},
        Fault{"NoArtifact", "/artifacts", json::array(), "artifacts", "is empty"},
        Fault{"ArtifactNotAmongFiles", "/artifacts/0/file", "b.pt2", "artifacts[0].file",
              "not among files"},
        Fault{"ArtifactOfUnknownDevice", "/artifacts/0/device", "tpu", "artifacts[0].device",
              "cpu, cuda"},
        Fault{"ArtifactOfUnknownIsa", "/artifacts/0/isa", "neon", "artifacts[0].isa", "avx2"},
        Fault{"CpuArtifactWithoutIsa", "/artifacts/0/isa", nullptr, "artifacts[0].isa", "avx2"},
        Fault{"ArtifactOfUnknownDType", "/artifacts/0/dtype", "int8", "artifacts[0].dtype",
              "bfloat16"},
        Fault{"NoAntialias", "/preprocess/antialias", false, "preprocess.antialias", "true"},
        Fault{"CpuArtifactWithSm", "/artifacts/0/sm", "90", "artifacts[0].sm", "null"},
        Fault{"CudaArtifactWithoutSm", "/artifacts/0/device", "cuda", "artifacts[0].sm", "90"},
        Fault{"ArtifactOfAnotherSize", "/artifacts/0/height", 16, "artifacts[0].height",
              "preprocess"},
        Fault{"ArtifactOfNoBatch", "/artifacts/0/min_batch", 9, "artifacts[0].max_batch",
              "less than"},
        Fault{"OpWithoutNamespace", "/artifacts/0/ops/0", "msda", "artifacts[0].ops[0]",
              "NAMESPACE"},
        Fault{"SumInCapitals", "/files/model.cpu.float32.pt2/sha256", std::string(64, 'A'),
              "files[\"model.cpu.float32.pt2\"].sha256", "hexadecimal"},
        Fault{"SumTooShort", "/files/model.cpu.float32.pt2/sha256", "00",
              "files[\"model.cpu.float32.pt2\"].sha256", "64"},
        Fault{"FileThatLeadsOut",
              "/files/..~1secret",
              {{"sha256", std::string(64, '0')}, {"bytes", 1}},
              "files[\"../secret\"]",
              "own name"},
        Fault{"FileInASubfolder",
              "/files/a~1b",
              {{"sha256", std::string(64, '0')}, {"bytes", 1}},
              "files[\"a/b\"]",
              "own name"},
        Fault{"HiddenFile",
              "/files/.a",
              {{"sha256", std::string(64, '0')}, {"bytes", 1}},
              "files[\".a\"]",
              "own name"},
        Fault{"SumOfTheManifestItself",
              "/files/package.json",
              {{"sha256", std::string(64, '0')}, {"bytes", 1}},
              "files[\"package.json\"]",
              "own sum"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PackageManifestTest, EveryMissingKeyIsNamed) {
  const json whole = testing::FakeManifest();
  for (const auto& item : whole.items()) {
    if (item.key() == "description") continue;
    json manifest = whole;
    manifest.erase(item.key());
    EXPECT_THAT(std::string(ParsePackageManifest(manifest.dump()).status().message()),
                HasSubstr(item.key() + ": is missing"));
  }
}

TEST(PackageManifestTest, AllFaultsStandInOneMessage) {
  json manifest = testing::FakeManifest();
  manifest["max_batch"] = "eight";
  manifest["labels"][1].erase("name");
  manifest["preprocess"]["width"] = -1;
  const absl::Status status = ParsePackageManifest(manifest.dump()).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("max_batch: is \"eight\""), HasSubstr("labels[1].name: is missing"),
                    HasSubstr("preprocess.width: is -1")));
}

TEST(PackageManifestTest, AKeyThatAppearsTwiceIsRefused) {
  std::string text = testing::FakeManifest().dump();
  text.insert(1, "\"max_batch\": 1000,");
  EXPECT_THAT(std::string(ParsePackageManifest(text).status().message()),
              HasSubstr("max_batch: appears twice"));
}

TEST(PackageManifestTest, WhatIsNotAJsonObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "{\"a\":1,}", "\xff\xfe"}) {
    const absl::Status status = ParsePackageManifest(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("package.json: ")) << text;
  }
}

}  // namespace
}  // namespace deform::engine
