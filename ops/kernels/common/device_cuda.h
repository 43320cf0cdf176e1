// What a CUDA device is. No torch.
#pragma once

namespace deform::kernels {

// Compute capability * 10 of device `index`, as in 90 for 9.0; 0 where CUDA can't say. Asked once
// for each of the first 64 devices.
int compute_capability(int index);

}  // namespace deform::kernels
