// What a kernel of single-scale deformable sampling that is compiled at run time knows of its call.
#pragma once

#include <initializer_list>

#include "attn/attn_cuda.h"
#include "common/cuda_launch.h"

namespace deform::kernels {

inline KernelRequest attn_request(const AttnCudaArguments& a, const char* file, const char* entry,
                                  std::initializer_list<KernelConstant> more) {
  KernelRequest request{file,
                        entry,
                        {{"DEFORM_VALUE", static_cast<int>(a.value_dtype)},
                         {"DEFORM_OFFSETS", static_cast<int>(a.offset_dtype)},
                         {"DEFORM_CHANNELS", a.channels},
                         {"DEFORM_POINTS", a.grid.points},
                         {"DEFORM_KERNEL_H", a.grid.kernel_h},
                         {"DEFORM_DROPPED", a.grid.dropped},
                         {"DEFORM_SOFTMAX", a.softmax}}};
  request.constants.insert(request.constants.end(), more);
  return request;
}

}  // namespace deform::kernels
