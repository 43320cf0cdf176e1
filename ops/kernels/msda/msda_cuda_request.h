// What a kernel of multi-scale deformable attention that is compiled at run time knows of its call.
#pragma once

#include <initializer_list>

#include "common/cuda_launch.h"
#include "msda/msda_cuda.h"

namespace deform::kernels {

inline KernelRequest msda_request(const MsdaCudaArguments& a, const char* file, const char* entry,
                                  std::initializer_list<KernelConstant> more) {
  KernelRequest request{file,
                        entry,
                        {{"DEFORM_VALUE", static_cast<int>(a.value_dtype)},
                         {"DEFORM_LOCATIONS", static_cast<int>(a.locations_dtype)},
                         {"DEFORM_WEIGHTS", static_cast<int>(a.weights_dtype)},
                         {"DEFORM_CHANNELS", a.channels},
                         {"DEFORM_LEVELS", a.levels},
                         {"DEFORM_POINTS", a.points},
                         {"DEFORM_SOFTMAX", a.softmax}}};
  request.constants.insert(request.constants.end(), more);
  return request;
}

}  // namespace deform::kernels
