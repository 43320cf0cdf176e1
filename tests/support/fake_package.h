#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "support/temporary_folder.h"

namespace deform::testing {

// A valid package.json of a small Mask2Former with one CPU artifact, for tests to alter: 8×8
// pictures, 4 queries, classes 0 "disk" (thing, category 1) and 1 "grass" (stuff, category 2),
// batches of 1 to 8, all three segmentation tasks.
inline nlohmann::json FakeManifest(const std::string& name = "fake") {
  // The file that WriteFakePackage writes.
  constexpr char kSha256[] = "307cd423a63da9baad66b0d8c9600f0d74c269a5e88769a4ec33bf881bc52a83";
  return {
      {"schema_version", 1},
      {"name", name},
      {"architecture", "mask2former"},
      {"description", "a package for tests"},
      {"tasks", {"INSTANCE", "SEMANTIC", "PANOPTIC"}},
      {"labels",
       {{{"id", 0},
         {"category_id", 1},
         {"name", "disk"},
         {"is_thing", true},
         {"color", {220, 20, 60}}},
        {{"id", 1},
         {"category_id", 2},
         {"name", "grass"},
         {"is_thing", false},
         {"color", {20, 220, 60}}}}},
      {"preprocess",
       {{"mode", "exact"},
        {"height", 8},
        {"width", 8},
        {"resample", "bilinear"},
        {"antialias", true},
        {"rescale_factor", 0.00392156862745098},
        {"mean", {0.5, 0.5, 0.5}},
        {"std", {0.25, 0.25, 0.25}},
        {"pixel_mask", false}}},
      {"postprocess",
       {{"compat", "DEFAULT"},
        {"score_threshold", 0.5},
        {"mask_threshold", 0.5},
        {"overlap_mask_area_threshold", 0.8},
        {"max_results", 100},
        {"fuse_label_ids", {1}}}},
      {"num_queries", 4},
      {"num_classes", 2},
      {"max_batch", 8},
      {"inputs", {{{"name", "pixel_values"}, {"dtype", "float32"}, {"shape", {-1, 3, 8, 8}}}}},
      {"outputs",
       {{{"name", "class_queries_logits"}, {"dtype", "float32"}, {"shape", {-1, 4, 3}}},
        {{"name", "masks_queries_logits"}, {"dtype", "float32"}, {"shape", {-1, 4, 2, 2}}}}},
      {"artifacts",
       {{{"file", "model.cpu.float32.pt2"},
         {"device", "cpu"},
         {"isa", "avx2"},
         {"sm", nullptr},
         {"dtype", "float32"},
         {"height", 8},
         {"width", 8},
         {"min_batch", 1},
         {"max_batch", 8},
         {"torch", "2.11.0"},
         {"ops", {"deform::msda"}},
         {"compile_seconds", 1.5},
         {"bytes", 13}}}},
      {"files", {{"model.cpu.float32.pt2", {{"sha256", kSha256}, {"bytes", 13}}}}},
      {"source",
       {{"architecture_config_sha256", std::string(64, '0')},
        {"weights_sha256", std::string(64, '0')}}},
      {"parity",
       {{{"artifact", "model.cpu.float32.pt2"},
         {"batch", {1, 8}},
         {"max_abs_difference", {{"class_queries_logits", 1e-6}, {"masks_queries_logits", 1e-6}}},
         {"tolerance", 1e-4}}}},
  };
}

// Writes `repository`/NAME/`version`/ with package.json as given (NAME is its "name") and the file
// that FakeManifest lists. Returns the package folder.
inline std::filesystem::path WriteFakePackage(const std::filesystem::path& repository,
                                              const std::string& version,
                                              const nlohmann::json& manifest = FakeManifest()) {
  const auto folder = repository / manifest.at("name").get<std::string>() / version;
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "package.json") << manifest.dump(1);
  std::ofstream(folder / "model.cpu.float32.pt2") << "fake network\n";
  return folder;
}

}  // namespace deform::testing
