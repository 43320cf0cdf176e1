#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/tensor.h"
#include "pipeline/picture.h"

namespace deform::pipeline {

// What the tests of this folder share. All throw when a file can't be read, so that a missing file
// fails its test.

// The bytes of a file under tests/data.
std::string ReadTestFile(const std::string& name);

// A NumPy file of float32 or int8 under tests/data/pipeline, as float32. int8 values v stand for
// (2 v + 1) / 16.
engine::Tensor ReadNpy(const std::string& name);

// A float32 tensor of these values.
engine::Tensor MakeTensor(std::vector<int64_t> shape, const std::vector<float>& values);

// Rings that alias: value ((x² + 3y² + 7xy) / 8 + 50c + 11x) mod 256.
Picture RingsPicture(int height, int width);

}  // namespace deform::pipeline
