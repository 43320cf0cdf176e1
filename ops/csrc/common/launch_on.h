// A launch on the current CUDA stream of a device. The stream comes through libc10's device-generic
// interface, so that this library needs no CUDA library of torch's: the same file loads where there
// is none.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "common/cuda_launch.h"

namespace deform::ops {

// With kernels of `run_time`; null: with those that are compiled into this library.
inline kernels::CudaLaunch launch_on(c10::Device device, kernels::RunTimeKernels* run_time) {
  const c10::Stream stream = c10::impl::getDeviceGuardImpl(device.type())->getStream(device);
  return {device.index(), static_cast<CUstream_st*>(stream.native_handle()),
          kernels::gpu_at(device.index()), run_time};
}

}  // namespace deform::ops
