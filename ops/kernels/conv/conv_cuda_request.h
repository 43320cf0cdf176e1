// What a kernel of deformable convolution that is compiled at run time knows of its call.
#pragma once

#include <initializer_list>

#include "common/cuda_launch.h"
#include "conv/conv_cuda.h"

namespace deform::kernels {

inline KernelRequest conv_request(const ConvCudaArguments& a, const char* file, const char* entry,
                                  std::initializer_list<KernelConstant> more) {
  KernelRequest request{file,
                        entry,
                        {{"DEFORM_VALUE", static_cast<int>(a.value_dtype)},
                         {"DEFORM_OFFSETS", static_cast<int>(a.offset_dtype)},
                         {"DEFORM_MASK", static_cast<int>(a.mask_dtype)},
                         {"DEFORM_HAS_MASK", a.mask != nullptr},
                         {"DEFORM_CHANNELS", a.channels},
                         {"DEFORM_OUT_CHANNELS", a.out_channels},
                         {"DEFORM_KERNEL_H", a.kernel_h},
                         {"DEFORM_KERNEL_W", a.kernel_w},
                         {"DEFORM_GROUPS", a.groups},
                         {"DEFORM_OFFSET_GROUPS", a.offset_groups}}};
  request.constants.insert(request.constants.end(), more);
  return request;
}

}  // namespace deform::kernels
