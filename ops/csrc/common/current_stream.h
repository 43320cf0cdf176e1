// The current CUDA stream through libc10's device-generic interface, so that this library needs no
// CUDA library of torch's: the same file loads where there is none.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

struct CUstream_st;

namespace deform::ops {

inline CUstream_st* current_stream(c10::Device device) {
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
  return static_cast<CUstream_st*>(stream.native_handle());
}

}  // namespace deform::ops
