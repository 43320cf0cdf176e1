#include "fixtures.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>

namespace deform::pipeline {

std::string ReadTestFile(const std::string& name) {
  std::ifstream file(std::string(DEFORM_TEST_DATA) + "/" + name, std::ios::binary);
  if (!file) throw std::runtime_error("no test file " + name);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

engine::Tensor MakeTensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  engine::Tensor tensor = engine::Tensor::Allocate(engine::DType::kFloat32, std::move(shape));
  if (tensor.element_count() != static_cast<int64_t>(values.size()))
    throw std::runtime_error("values don't fill the shape");
  std::memcpy(tensor.mutable_data(), values.data(), tensor.bytes());
  return tensor;
}

engine::Tensor ReadNpy(const std::string& name) {
  const std::string file = ReadTestFile("pipeline/" + name);
  // Version 1: magic, two bytes of version, the header's size, the header, the values.
  const size_t header_bytes = static_cast<uint8_t>(file.at(8)) | static_cast<uint8_t>(file[9]) << 8;
  const std::string header = file.substr(10, header_bytes);
  std::smatch found;
  if (header.find("'fortran_order': False") == std::string::npos ||
      !std::regex_search(header, found, std::regex("'descr': '(<f4|\\|i1)'.*\\(([0-9, ]+)\\)")))
    throw std::runtime_error("not a .npy of the kind read here: " + name);
  std::vector<int64_t> shape;
  const std::string sizes = found[2];
  const std::regex number("[0-9]+");
  for (std::sregex_iterator it(sizes.begin(), sizes.end(), number); it != std::sregex_iterator();
       ++it)
    shape.push_back(std::stoll(it->str()));

  const std::string bytes = file.substr(10 + header_bytes);
  std::vector<float> values;
  if (found[1] == "<f4") {
    values.resize(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    for (const char byte : bytes)
      values.push_back(static_cast<float>(2 * static_cast<int8_t>(byte) + 1) / 16);
  }
  return MakeTensor(shape, values);
}

Picture RingsPicture(int height, int width) {
  Picture picture{.width = width, .height = height, .rgb = {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < 3; ++c)
        picture.rgb.push_back(
            static_cast<uint8_t>((x * x + 3 * y * y + 7 * x * y) / 8 + 50 * c + 11 * x));
    }
  }
  return picture;
}

}  // namespace deform::pipeline
