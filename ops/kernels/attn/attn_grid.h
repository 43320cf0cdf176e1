// The undisturbed places of the points of single-scale deformable sampling.
#pragma once

#include <stdint.h>

namespace deform::kernels {

// Point k of a kernel without its `dropped` one is point k' of the whole, k' = k + (k >= dropped),
// in column k' / kernel_h and row k' % kernel_h. With offsets (dx, dy) it is, for output (oy, ox),
// at
//
//   x = ox * stride_w + start_x + column * step_x + dx * spread
//   y = oy * stride_h + start_y + row * step_y + dy * spread
struct AttnGrid {
  int64_t points;   // of the kernel, without the dropped one
  int64_t dropped;  // `points` if none is
  int64_t kernel_h;
  int64_t stride_h, stride_w;
  double start_x, start_y;
  double step_x, step_y;
  double spread;
};

}  // namespace deform::kernels
