#include "jit/nvrtc.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <cstddef>
#include <filesystem>
#include <string>

namespace deform::ops {
namespace {

using Program = struct ProgramHandle*;

// The functions of nvrtc.h that are called, with its types spelt out: an int of 0 is success.
struct Nvrtc {
  int (*version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*create)(Program* program, const char* text, const char* name, int headers,
                const char* const* header_texts, const char* const* header_names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int options, const char* const* option) = nullptr;
  int (*log_size)(Program program, size_t* bytes) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  int (*cubin_size)(Program program, size_t* bytes) = nullptr;
  int (*cubin)(Program program, char* bytes) = nullptr;
  std::string missing;

  Nvrtc() {
    void* const library = open();
    if (library == nullptr) return;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && missing.empty()) missing = std::string("NVRTC lacks ") + name;
    };
    find(version, "nvrtcVersion");
    find(error_string, "nvrtcGetErrorString");
    find(create, "nvrtcCreateProgram");
    find(destroy, "nvrtcDestroyProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(cubin_size, "nvrtcGetCUBINSize");
    find(cubin, "nvrtcGetCUBIN");
  }

 private:
  void* open() {
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) {
      if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    }
    // PyPI's torch has its CUDA libraries in a folder beside its own: torch/lib/libc10.so,
    // nvidia/cu13/lib/libnvrtc.so.13.
    Dl_info torch;
    if (dladdr(reinterpret_cast<const void*>(&c10::DeviceTypeName), &torch) != 0) {
      const std::filesystem::path site =
          std::filesystem::path(torch.dli_fname).parent_path().parent_path().parent_path();
      const std::filesystem::path beside = site / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13";
      if (void* const library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    missing = "libnvrtc.so.13 is neither on the loader's path nor beside torch's CUDA libraries";
    return nullptr;
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc* const instance = new Nvrtc;
  return *instance;
}

struct ProgramOwner {
  Program program = nullptr;
  ~ProgramOwner() {
    if (program != nullptr) nvrtc().destroy(&program);
  }
};

}  // namespace

std::string nvrtc_missing() { return nvrtc().missing; }

std::string nvrtc_version() {
  int major = 0, minor = 0;
  nvrtc().version(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string nvrtc_compile(const KernelSource& source, int sm) {
  const Nvrtc& api = nvrtc();
  TORCH_CHECK(api.missing.empty(), "KernelBuildError: ", source.name, ": ", api.missing);
  const auto check = [&](int result, const char* step) {
    TORCH_CHECK(result == 0, "KernelBuildError: ", source.name, ": ", step, ": ",
                api.error_string(result));
  };
  std::vector<const char*> names, texts, options;
  for (const auto& [name, text] : source.headers) {
    names.push_back(name.c_str());
    texts.push_back(text.c_str());
  }
  const std::string architecture = "--gpu-architecture=sm_" + std::to_string(sm);
  options.push_back(architecture.c_str());
  for (const std::string& option : source.options) options.push_back(option.c_str());

  ProgramOwner owner;
  check(api.create(&owner.program, source.text.c_str(), source.name.c_str(),
                   static_cast<int>(names.size()), texts.data(), names.data()),
        "nvrtcCreateProgram");
  const int compiled = api.compile(owner.program, static_cast<int>(options.size()), options.data());
  if (compiled != 0) {
    size_t bytes = 0;
    check(api.log_size(owner.program, &bytes), "nvrtcGetProgramLogSize");
    std::string log(bytes, '\0');
    check(api.log(owner.program, log.data()), "nvrtcGetProgramLog");
    TORCH_CHECK(false, "KernelBuildError: ", source.name, " for SM ", sm / 10, ".", sm % 10, ": ",
                api.error_string(compiled), "\n", log.c_str());
  }
  size_t bytes = 0;
  check(api.cubin_size(owner.program, &bytes), "nvrtcGetCUBINSize");
  std::string cubin(bytes, '\0');
  check(api.cubin(owner.program, cubin.data()), "nvrtcGetCUBIN");
  return cubin;
}

}  // namespace deform::ops
