// Which backend a call takes: a pure function of what is called and of what can run here. No device
// is asked, so that the choice for any GPU can be tested on any machine.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace deform::ops {

enum class Op : int { kMsda, kAttn, kConv };
enum class Backend : int { kCuda, kJit, kCpu, kEager };
constexpr int kOps = 3;
constexpr int kBackends = 4;

const char* name_of(Op op);
const char* name_of(Backend backend);
// Nothing unless `name` is one that name_of gives.
std::optional<Op> op_named(const std::string& name);
std::optional<Backend> backend_named(const std::string& name);

// One call, as far as the policy looks at it.
struct Call {
  Op op;
  c10::DeviceType device;
  int sm;  // compute capability * 10, as in 90 for 9.0; of no meaning but on CUDA
  c10::ScalarType dtype;
  int64_t channels;  // of a head; for conv of an offset group
  int64_t levels;    // 1 but for msda
  int64_t points;    // of a level, or of the kernel
  bool training;     // a gradient is wanted
};

// A GPU architecture that the library holds kernels for, as CMake names it: "90a-real",
// "100-virtual".
struct KernelTarget {
  int sm;
  bool exact;  // uses what only this architecture has: runs on no other
  bool ptx;    // text that the driver compiles, for this and every later architecture

  // Throws c10::Error on a text that isn't an architecture.
  static KernelTarget parse(const std::string& text);
};

// What can run here.
struct Capabilities {
  std::vector<KernelTarget> cuda_targets;  // empty: built without a CUDA compiler
  std::string jit_missing;                 // why nothing can be compiled at run time; empty: it can
  std::array<bool, kBackends> disabled = {};  // by name, through enable_backend
  std::array<bool, kOps> left_out = {};       // operators that were built without CUDA kernels
};

struct Rejection {
  Backend backend;
  std::string reason;
};

struct Resolution {
  std::optional<Backend> backend;   // nothing: no candidate can run
  std::vector<Rejection> rejected;  // in the order of preference, all before `backend`
  bool float32_accumulation;        // of value gradients, whatever the caller asks
  std::vector<std::string> notes;   // what was known and used
};

Resolution resolve(const Call& call, const Capabilities& capabilities);

// Whether a GPU of compute capability `sm` / 10 sums value gradients in the value's own type: those
// of half precision only where the caller allows it and the GPU has atomic additions of them.
bool sums_in_own_type(int sm, c10::ScalarType dtype, bool fp32acc);

// "msda: no backend can run …", with each candidate and its reason.
std::string describe_failure(const Call& call, const Resolution& resolution);

}  // namespace deform::ops
