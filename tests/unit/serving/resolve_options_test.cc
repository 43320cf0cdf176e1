#include "serving/resolve_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"

namespace deform::serving {
namespace {

using engine::Compat;
using engine::Task;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

engine::PackageManifest Manifest() {
  engine::PackageManifest manifest;
  manifest.tasks = {Task::kInstance, Task::kSemantic, Task::kPanoptic, Task::kDetection};
  manifest.labels = {{.id = 0, .category_id = 10, .name = "disk", .is_thing = true},
                     {.id = 3, .category_id = 11, .name = "grass", .is_thing = false},
                     {.id = 5, .category_id = 12, .name = "disk", .is_thing = true}};
  manifest.postprocess = {.compat = Compat::kHuggingFace,
                          .score_threshold = 0.25f,
                          .mask_threshold = 0.375f,
                          .overlap_mask_area_threshold = 0.625f,
                          .max_results = 7,
                          .fuse_label_ids = {}};
  return manifest;
}

// The fields that are at fault, empty for a request that is fine.
std::vector<std::string> Faults(Task task, const RequestedOptions& requested,
                                const engine::PackageManifest& manifest = Manifest()) {
  const absl::Status status = ResolveOptions(manifest, task, requested).status();
  if (status.ok()) return {};
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const auto details = base::GetErrorDetails(status);
  if (!details) return {"no details"};
  EXPECT_EQ(details->reason, "INVALID_FIELD");
  std::vector<std::string> fields;
  for (const auto& violation : details->field_violations) {
    fields.push_back(violation.field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(violation.field));
    EXPECT_THAT(violation.description, Not(IsEmpty()));
  }
  return fields;
}

TEST(ResolveOptions, UnsetMeansThePackages) {
  const auto options = ResolveOptions(Manifest(), std::nullopt, {});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->task, Task::kInstance);  // its first
  EXPECT_EQ(options->compat, Compat::kHuggingFace);
  EXPECT_EQ(options->score_threshold, 0.25f);
  EXPECT_EQ(options->mask_threshold, 0.375f);
  EXPECT_EQ(options->overlap_mask_area_threshold, 0.625f);
  EXPECT_EQ(options->max_results, 7);
  EXPECT_THAT(options->label_ids, IsEmpty());
}

TEST(ResolveOptions, WhatIsSetCounts) {
  const auto instance = ResolveOptions(Manifest(), Task::kInstance,
                                       {.score_threshold = 0.0f,
                                        .mask_threshold = 1.0f,
                                        .overlap_mask_area_threshold = {},
                                        .max_results = 1,
                                        .label_names = {"grass"},
                                        .compat = Compat::kDefault});
  ASSERT_TRUE(instance.ok()) << instance.status();
  EXPECT_EQ(instance->score_threshold, 0.0f);
  EXPECT_EQ(instance->mask_threshold, 1.0f);
  EXPECT_EQ(instance->max_results, 1);
  EXPECT_EQ(instance->compat, Compat::kDefault);
  EXPECT_THAT(instance->label_ids, ElementsAre(3));

  RequestedOptions overlap;
  overlap.overlap_mask_area_threshold = 0.5f;
  const auto panoptic = ResolveOptions(Manifest(), Task::kPanoptic, overlap);
  ASSERT_TRUE(panoptic.ok()) << panoptic.status();
  EXPECT_EQ(panoptic->overlap_mask_area_threshold, 0.5f);
}

TEST(ResolveOptions, ANameMeansEveryLabelThatHasIt) {
  RequestedOptions requested;
  requested.label_names = {"disk", "grass", "disk"};
  const auto options = ResolveOptions(Manifest(), Task::kInstance, requested);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->label_ids, ElementsAre(0, 5, 3));
}

TEST(ResolveOptions, ThresholdsThatAreNoShareAreRefused) {
  const float hostile[] = {std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity(),
                           -std::numeric_limits<float>::infinity(),
                           -1.0f,
                           2.0f,
                           -std::numeric_limits<float>::denorm_min(),
                           std::nextafter(1.0f, 2.0f)};
  for (float value : hostile) {
    RequestedOptions requested;
    requested.score_threshold = value;
    EXPECT_THAT(Faults(Task::kPanoptic, requested), ElementsAre("options.score_threshold"));
    requested = {};
    requested.mask_threshold = value;
    EXPECT_THAT(Faults(Task::kPanoptic, requested), ElementsAre("options.mask_threshold"));
    requested = {};
    requested.overlap_mask_area_threshold = value;
    EXPECT_THAT(Faults(Task::kPanoptic, requested),
                ElementsAre("options.overlap_mask_area_threshold"));
  }
}

TEST(ResolveOptions, AtLeastOneResult) {
  for (int value : {0, -1, std::numeric_limits<int>::min()}) {
    RequestedOptions requested;
    requested.max_results = value;
    EXPECT_THAT(Faults(Task::kDetection, requested), ElementsAre("options.max_results")) << value;
  }
}

TEST(ResolveOptions, AllFaultsAreNamedAtOnce) {
  EXPECT_THAT(Faults(Task::kInstance, {.score_threshold = -1.0f,
                                       .mask_threshold = 0.5f,
                                       .overlap_mask_area_threshold = 0.5f,
                                       .max_results = 0,
                                       .label_names = {"disk", "unicorn"},
                                       .compat = Compat::kDefault}),
              ElementsAre("options.score_threshold", "options.overlap_mask_area_threshold",
                          "options.max_results", "options.labels"));
}

TEST(ResolveOptions, AnUnknownLabelIsNamedWithWhatThereIs) {
  RequestedOptions requested;
  requested.label_names = {std::string(10'000, 'x')};
  const absl::Status status = ResolveOptions(Manifest(), Task::kInstance, requested).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("disk, grass"));
  EXPECT_LT(status.message().size(), 300u);
}

TEST(ResolveOptions, AnOptionThatTheTaskDoesNotUseIsRefused) {
  struct Case {
    Task task;
    Compat compat;
    bool score, mask, overlap, max_results, labels;
  };
  const Case cases[] = {
      {Task::kInstance, Compat::kDefault, true, true, false, true, true},
      {Task::kInstance, Compat::kHuggingFace, true, false, false, true, true},
      {Task::kSemantic, Compat::kDefault, false, false, false, false, false},
      {Task::kSemantic, Compat::kHuggingFace, false, false, false, false, false},
      {Task::kPanoptic, Compat::kDefault, true, true, true, false, false},
      {Task::kPanoptic, Compat::kHuggingFace, true, true, true, false, false},
      {Task::kDetection, Compat::kDefault, true, false, false, true, true},
      {Task::kDetection, Compat::kHuggingFace, true, false, false, true, true},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(engine::TaskName(c.task)));
    const auto check = [&](bool used, const char* field, RequestedOptions requested) {
      requested.compat = c.compat;
      if (used) {
        EXPECT_THAT(Faults(c.task, requested), IsEmpty()) << field;
      } else {
        EXPECT_THAT(Faults(c.task, requested), ElementsAre(field));
      }
    };
    RequestedOptions requested;
    requested.score_threshold = 0.5f;
    check(c.score, "options.score_threshold", requested);
    requested = {};
    requested.mask_threshold = 0.5f;
    check(c.mask, "options.mask_threshold", requested);
    requested = {};
    requested.overlap_mask_area_threshold = 0.5f;
    check(c.overlap, "options.overlap_mask_area_threshold", requested);
    requested = {};
    requested.max_results = 3;
    check(c.max_results, "options.max_results", requested);
    requested = {};
    requested.label_names = {"disk"};
    check(c.labels, "options.labels", requested);
    check(true, "options.compat", {});
  }
}

TEST(ResolveOptions, ATaskThatThePackageLacksIsRefusedWithThoseItHas) {
  engine::PackageManifest manifest = Manifest();
  manifest.tasks = {Task::kSemantic, Task::kInstance};
  EXPECT_THAT(Faults(Task::kDetection, {}, manifest), ElementsAre("task"));
  const absl::Status status = ResolveOptions(manifest, Task::kDetection, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("SEMANTIC, INSTANCE"));
}

TEST(ResolveOptions, PanopticNeedsThingOrStuffOfEveryLabel) {
  engine::PackageManifest manifest = Manifest();
  EXPECT_THAT(Faults(Task::kPanoptic, {}, manifest), IsEmpty());
  manifest.labels[1].is_thing.reset();
  EXPECT_THAT(Faults(Task::kPanoptic, {}, manifest), ElementsAre("task"));
  EXPECT_THAT(Faults(Task::kInstance, {}, manifest), IsEmpty());
}

}  // namespace
}  // namespace deform::serving
