#pragma once

#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/tensor.h"
#include "nlohmann/json.hpp"
#include "support/fake_model.h"

namespace deform::testing {

// A 6×4 PNG, pure red, written by Pillow.
inline const std::string kRedPng(
    "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x06\x00\x00\x00"
    "\x04\x08\x02\x00\x00\x00\x22\x66\xd9\x14\x00\x00\x00\x12\x49\x44\x41\x54\x78\x9c\x63\xfc\xcf"
    "\x80\x0e\x98\x30\x44\x88\x14\x02\x00\x4c\x31\x01\x07\x4e\x3d\xb3\x8c\x00\x00\x00\x00\x49\x45"
    "\x4e\x44\xae\x42\x60\x82",
    75);

// A model repository in a folder of its own, gone with this object: packages whose manifests are
// whole and whose one artifact is an empty file, for loaders that open none.
class FakeRepository {
 public:
  FakeRepository() {
    std::string folder = (std::filesystem::temp_directory_path() / "deform_repository_XXXXXX");
    path_ = ::mkdtemp(folder.data());
  }
  ~FakeRepository() { std::filesystem::remove_all(path_); }
  FakeRepository(const FakeRepository&) = delete;
  FakeRepository& operator=(const FakeRepository&) = delete;

  const std::string& path() const { return path_; }

  // A Mask2Former of two queries and two labels, "disk" (thing) and "sand" (stuff), on 8×8 pixels.
  void AddSegmentationModel(const std::string& name, int version = 1) const {
    nlohmann::json package = Common(name);
    package["architecture"] = "mask2former";
    package["tasks"] = {"INSTANCE", "SEMANTIC", "PANOPTIC"};
    package["outputs"] = {Spec("class_queries_logits", {-1, 2, 3}),
                          Spec("masks_queries_logits", {-1, 2, 4, 4})};
    Write(package, version);
  }

  // A Deformable DETR of two queries and the same labels, on 8×8 pixels.
  void AddDetectionModel(const std::string& name, int version = 1) const {
    nlohmann::json package = Common(name);
    package["architecture"] = "deformable_detr";
    package["tasks"] = {"DETECTION"};
    package["preprocess"]["pixel_mask"] = true;
    package["inputs"].push_back(
        {{"name", "pixel_mask"}, {"dtype", "int64"}, {"shape", {-1, 8, 8}}});
    package["outputs"] = {Spec("logits", {-1, 2, 2}), Spec("pred_boxes", {-1, 2, 4})};
    Write(package, version);
  }

  // Appends to the model's artifact, which its checksum then doesn't fit.
  void Damage(const std::string& name, int version = 1) const {
    std::ofstream(Folder(name, version) + "/model.pt2", std::ios::app) << "x";
  }

 private:
  static nlohmann::json Spec(const std::string& name, const std::vector<int>& shape) {
    return {{"name", name}, {"dtype", "float32"}, {"shape", shape}};
  }

  static nlohmann::json Common(const std::string& name) {
    const std::string sha256_of_nothing =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    return {{"schema_version", 1},
            {"name", name},
            {"description", "a fake"},
            {"labels",
             {{{"id", 0},
               {"category_id", 7},
               {"name", "disk"},
               {"is_thing", true},
               {"color", {220, 20, 60}}},
              {{"id", 1},
               {"category_id", 9},
               {"name", "sand"},
               {"is_thing", false},
               {"color", {0, 255, 1}}}}},
            {"preprocess",
             {{"mode", "exact"},
              {"height", 8},
              {"width", 8},
              {"resample", "bilinear"},
              {"antialias", true},
              {"rescale_factor", 1 / 255.0},
              {"mean", {0, 0, 0}},
              {"std", {1, 1, 1}},
              {"pixel_mask", false}}},
            {"postprocess",
             {{"compat", "DEFAULT"},
              {"score_threshold", 0.5},
              {"mask_threshold", 0.5},
              {"overlap_mask_area_threshold", 0.75},
              {"max_results", 100},
              {"fuse_label_ids", nlohmann::json::array()}}},
            {"num_queries", 2},
            {"num_classes", 2},
            {"max_batch", 8},
            {"inputs", {Spec("pixel_values", {-1, 3, 8, 8})}},
            {"artifacts",
             {{{"file", "model.pt2"},
               {"device", "cpu"},
               {"isa", "avx2"},
               {"sm", nullptr},
               {"dtype", "float32"},
               {"height", 8},
               {"width", 8},
               {"min_batch", 1},
               {"max_batch", 8},
               {"torch", "2.11.0"},
               {"ops", nlohmann::json::array()},
               {"compile_seconds", 1.0},
               {"bytes", 0}}}},
            {"files", {{"model.pt2", {{"sha256", sha256_of_nothing}, {"bytes", 0}}}}},
            {"source",
             {{"architecture_config_sha256", sha256_of_nothing},
              {"weights_sha256", sha256_of_nothing}}},
            {"parity", nlohmann::json::array()}};
  }

  std::string Folder(const std::string& name, int version) const {
    return absl::StrCat(path_, "/", name, "/", version);
  }

  void Write(const nlohmann::json& package, int version) const {
    const std::string folder = Folder(package["name"], version);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/model.pt2");
    std::ofstream(folder + "/package.json") << package;
  }

  std::string path_;
};

// A tensor [rows, …] whose rows are all alike.
inline engine::Tensor RepeatRow(int64_t rows, std::vector<int64_t> row_shape,
                                const std::vector<float>& row) {
  row_shape.insert(row_shape.begin(), rows);
  auto tensor = engine::Tensor::Allocate(engine::DType::kFloat32, row_shape);
  auto* out = static_cast<float*>(tensor.mutable_data());
  for (int64_t i = 0; i < rows; ++i) out = std::copy(row.begin(), row.end(), out);
  return tensor;
}

// What a segmentation model's network may find in any picture: query 0 a disk with probability .9
// on the left half, its mask's probability .9999 there and .0001 elsewhere; query 1 nothing.
inline absl::StatusOr<std::vector<engine::Tensor>> FindDiskOnTheLeft(
    absl::Span<const engine::Tensor> inputs) {
  const int64_t rows = inputs[0].shape()[0];
  std::vector<float> classes;
  for (const float p : {0.9f, 0.05f, 0.05f, 0.001f, 0.001f, 0.998f}) classes.push_back(std::log(p));
  std::vector<float> masks(2 * 4 * 4, -9.21f);
  for (int i = 0; i < 16; ++i) masks[i] = i % 4 < 2 ? 9.21f : -9.21f;
  return std::vector<engine::Tensor>{RepeatRow(rows, {2, 3}, classes),
                                     RepeatRow(rows, {2, 4, 4}, masks)};
}

// The same for a detection model: a disk with score sigmoid(2), its box the left half.
inline absl::StatusOr<std::vector<engine::Tensor>> DetectDiskOnTheLeft(
    absl::Span<const engine::Tensor> inputs) {
  const int64_t rows = inputs[0].shape()[0];
  return std::vector<engine::Tensor>{
      RepeatRow(rows, {2, 2}, {2, -8, -8, -8}),
      RepeatRow(rows, {2, 4}, {0.25f, 0.5f, 0.5f, 1, 0.5f, 0.5f, 0.1f, 0.1f})};
}

}  // namespace deform::testing
