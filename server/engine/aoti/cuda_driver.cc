#include "engine/aoti/cuda_driver.h"

#include <dlfcn.h>

#include "base/logging.h"

namespace deform::engine {
namespace {

// cuda.h's functions and constants, of which its binary interface guarantees these.
using CuInit = int (*)(unsigned flags);
using CuDeviceGetCount = int (*)(int* count);
using CuDeviceGet = int (*)(int* device, int ordinal);
using CuDeviceGetAttribute = int (*)(int* value, int attribute, int device);
constexpr int kSuccess = 0;
constexpr int kComputeCapabilityMajor = 75;
constexpr int kComputeCapabilityMinor = 76;

struct Driver {
  CuDeviceGet device_get = nullptr;
  CuDeviceGetAttribute device_get_attribute = nullptr;
  int device_count = 0;
};

Driver OpenDriver() {
  Driver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return driver;
  const auto init = reinterpret_cast<CuInit>(dlsym(library, "cuInit"));
  const auto get_count = reinterpret_cast<CuDeviceGetCount>(dlsym(library, "cuDeviceGetCount"));
  driver.device_get = reinterpret_cast<CuDeviceGet>(dlsym(library, "cuDeviceGet"));
  driver.device_get_attribute =
      reinterpret_cast<CuDeviceGetAttribute>(dlsym(library, "cuDeviceGetAttribute"));
  if (init == nullptr || get_count == nullptr || driver.device_get == nullptr ||
      driver.device_get_attribute == nullptr)
    return driver;
  int count = 0;
  if (init(0) == kSuccess && get_count(&count) == kSuccess) driver.device_count = count;
  return driver;
}

const Driver& OpenedDriver() {
  static const Driver driver = OpenDriver();
  return driver;
}

}  // namespace

int CudaDeviceCount() { return OpenedDriver().device_count; }

std::string ComputeCapability(int index) {
  const Driver& driver = OpenedDriver();
  if (index < 0 || index >= driver.device_count) return "";
  int device = 0, major = 0, minor = 0;
  if (driver.device_get(&device, index) != kSuccess ||
      driver.device_get_attribute(&major, kComputeCapabilityMajor, device) != kSuccess ||
      driver.device_get_attribute(&minor, kComputeCapabilityMinor, device) != kSuccess)
    return "";
  return std::to_string(major * 10 + minor);
}

absl::Status OpenTorchCuda() {
  static const absl::Status status = [] {
    // libtorch_cpu.so's neighbour, found by this program's run path.
    for (const char* library : {"libc10_cuda.so", "libtorch_cuda.so"}) {
      if (dlopen(library, RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
      base::Log(base::LogLevel::kError, "torch_cuda_unopened", {{"error", std::string(dlerror())}});
      return absl::FailedPreconditionError("torch's CUDA libraries can't be opened");
    }
    return absl::OkStatus();
  }();
  return status;
}

}  // namespace deform::engine
