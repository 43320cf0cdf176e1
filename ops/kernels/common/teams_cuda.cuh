// Teams: 1, 2, 4, … or 32 neighbouring threads of a warp that work on one task together.
#pragma once

#include "common/elements_cuda.cuh"

namespace deform::kernels::cuda {

constexpr unsigned kWholeWarp = 0xffffffffu;

// A kernel's threads as teams, and the points placed at once.
struct Teams {
  int lanes;      // of a team
  int chunk;      // points
  int64_t tasks;  // each is a team's
};

// A team's arrays of `chunk` elements. Neighbouring teams' elements stand side by side, so that a
// warp's accesses fall on different banks.
template <class R>
struct TeamArrays {
  R* first;
  int teams;  // in the block
  int chunk;

  __device__ R& at(int array, int k) const { return first[(array * chunk + k) * teams]; }
  __device__ R& x(int k) const { return at(0, k); }
  __device__ R& y(int k) const { return at(1, k); }
  __device__ R& weight(int k) const { return at(2, k); }
  __device__ R& by_weight(int k) const { return at(3, k); }  // backward only
};

template <class R>
__device__ inline R team_sum(R x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) x += __shfl_xor_sync(kWholeWarp, x, step);
  return x;
}

}  // namespace deform::kernels::cuda
