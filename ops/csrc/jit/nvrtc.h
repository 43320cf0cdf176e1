// NVIDIA's run-time compiler, opened when it is first wanted: the library needs none to load.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace deform::ops {

// One kernel to compile. Headers are what the text includes, by the names it includes them by.
struct KernelSource {
  std::string name;  // for messages
  std::string text;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text
  std::vector<std::string> options;
};

// Why nothing can be compiled at run time; empty where NVRTC is there. Looks for libnvrtc among the
// libraries of the process, on the loader's path, and beside torch's CUDA libraries.
std::string nvrtc_missing();

// Of the compiler, as "13.0". REQUIRES: nvrtc_missing() is empty.
std::string nvrtc_version();

// Machine code for compute capability `sm` / 10. Throws c10::Error, which starts with
// "KernelBuildError" and ends with the compiler's log.
std::string nvrtc_compile(const KernelSource& source, int sm);

}  // namespace deform::ops
