#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/aoti/aoti_loader.h"
#include "engine/package_manifest.h"
#include "engine/tensor.h"
#include "gtest/gtest.h"
#include "support/temporary_folder.h"

namespace deform::engine {

// What make_toy_package.py wrote, and a temporary directory of the test's own, so that it can see
// what a load leaves behind.
class ToyPackageTest : public ::testing::Test {
 protected:
  ToyPackageTest() { setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~ToyPackageTest() override { unsetenv("TMPDIR"); }

  static std::filesystem::path package() { return DEFORM_TOY_PACKAGE; }

  static PackageManifest Manifest(const std::string& file = "toy.pt2") {
    PackageManifest manifest;
    manifest.name = "toy";
    manifest.max_batch = 8;
    manifest.inputs = {{"pixel_values", DType::kFloat32, {-1, 3, 8, 8}}};
    manifest.outputs = {{"class_queries_logits", DType::kFloat32, {-1, 4, 3}},
                        {"masks_queries_logits", DType::kFloat32, {-1, 4, 2, 2}}};
    manifest.artifacts.push_back({.file = file,
                                  .device = "cpu",
                                  .isa = "",
                                  .sm = "",
                                  .dtype = "float32",
                                  .min_batch = 1,
                                  .max_batch = 8,
                                  .torch_version = TorchVersion(),
                                  .ops = {"toy::scale"}});
    return manifest;
  }

  // A float32 file of the package as a tensor of this shape.
  static Tensor Read(const std::string& name, std::vector<int64_t> shape) {
    Tensor tensor = Tensor::Allocate(DType::kFloat32, std::move(shape));
    std::ifstream file(package() / name, std::ios::binary);
    file.read(static_cast<char*>(tensor.mutable_data()), tensor.bytes());
    EXPECT_EQ(file.gcount(), tensor.bytes()) << name;
    return tensor;
  }

  static std::vector<float> Values(const Tensor& tensor) {
    return {tensor.data_as<float>(), tensor.data_as<float>() + tensor.element_count()};
  }

  int FoldersLeft() const {
    int count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(temporary_.path()))
      ++count;
    return count;
  }

  testing::TemporaryFolder temporary_;
};

}  // namespace deform::engine
