// Asks a loaded operator library which backend a call would take, without running it. For programs
// that link libtorch and load libdeform_ops.so at run time: header only, through the dispatcher.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace deform {

struct Resolution {
  std::string backend;  // "cuda", "jit", "cpu" or "eager"; empty where none can run
  // The candidates preferred to `backend`, and why each can't run.
  std::vector<std::pair<std::string, std::string>> rejected;
  bool float32_accumulation = true;  // of half-precision value gradients, whatever the caller asks
  std::vector<std::string> notes;    // what the choice rests on, for people to read
};

struct ResolveRequest {
  std::string op;  // "msda", "attn" or "conv"
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t channels = 32;  // of a head; for conv of an offset group
  int64_t levels = 1;
  int64_t points = 4;  // of a level, or of the kernel
  bool training = false;
  std::optional<int64_t> sm = std::nullopt;  // compute capability * 10; nothing: the device's own
};

// Throws c10::Error if no operator library is loaded, or `request.op` is none of its operators.
inline Resolution resolve(const ResolveRequest& request) {
  const c10::OperatorHandle handle =
      c10::Dispatcher::singleton().findSchemaOrThrow("deform::resolve", "");
  torch::jit::Stack stack{request.op,
                          request.device,
                          static_cast<int64_t>(request.dtype),
                          request.channels,
                          request.levels,
                          request.points,
                          request.training,
                          request.sm ? c10::IValue(*request.sm) : c10::IValue()};
  handle.callBoxed(stack);
  const auto texts = [](const c10::IValue& list) {
    std::vector<std::string> all;
    for (const c10::IValue& text : list.toListRef()) all.push_back(text.toStringRef());
    return all;
  };
  Resolution resolution;
  resolution.backend = stack[0].toStringRef();
  const std::vector<std::string> rejected = texts(stack[1]), reasons = texts(stack[2]);
  for (size_t i = 0; i < rejected.size(); ++i) {
    resolution.rejected.emplace_back(rejected[i], reasons[i]);
  }
  resolution.float32_accumulation = stack[3].toBool();
  resolution.notes = texts(stack[4]);
  return resolution;
}

}  // namespace deform
