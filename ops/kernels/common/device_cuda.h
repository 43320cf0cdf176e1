// What a CUDA device is. No torch, no CUDA headers.
#pragma once

#include <cstddef>

namespace deform::kernels {

struct Gpu {
  int capability = 0;  // compute capability * 10, as in 90 for 9.0; 0 where CUDA can't say
  int multiprocessors = 0;
  size_t shared_bytes = 0;  // most shared memory that a block can ask for
};

// Device `index`. Asked once for each of the first 64.
Gpu gpu_at(int index);

}  // namespace deform::kernels
