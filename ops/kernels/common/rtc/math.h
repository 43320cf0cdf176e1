// What kernels use of math.h and the run-time compiler doesn't know by itself.
#pragma once

#define INFINITY __int_as_float(0x7f800000)
