// Element types that kernels read and write, told apart at run time.
#pragma once

namespace deform::kernels {

enum class Dtype : int { kFloat32, kFloat16, kBFloat16, kFloat64 };

}  // namespace deform::kernels
