// The integer types that kernels use, for the run-time compiler.
#pragma once

using int32_t = int;
using int64_t = long long;
using uint32_t = unsigned;
using uint64_t = unsigned long long;
using uint16_t = unsigned short;
using uintptr_t = unsigned long long;
