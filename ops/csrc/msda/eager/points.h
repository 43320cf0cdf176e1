// The points of one level as tensors, for the eager form in both directions. Shapes are
// (B, Q, G, K); floats are of the compute type.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <cstdint>

namespace deform::ops {

// value and the sizes of a call.
struct EagerCall {
  at::Tensor pixels;     // (B * S * G, D): row (b * S + s) * G + g is pixel s as head g sees it
  at::Tensor picture;    // int64 (B, 1, 1, 1): first row of each picture, in pixels of one head
  at::Tensor head;       // int64 (1, 1, G, 1)
  at::Tensor locations;  // of the compute type
  at::Tensor weights;    // as given or normalised: (B, Q, G, L, K)
  c10::SymInt B, S, G, D, Q, K;
  int64_t L;

  // REQUIRES: checked operands.
  EagerCall(const at::Tensor& value, const at::Tensor& sampling_locations,
            const at::Tensor& attention_weights, bool softmax);
};

// A pixel beside each point. Past the border stands the neighbour within, with factors of 0.
struct LevelCorner {
  at::Tensor index;    // int64: row of EagerCall::pixels
  at::Tensor within;   // bool
  at::Tensor share_x;  // the point's share of this column, and of this line; 0 unless within
  at::Tensor share_y;
  bool right, bottom;
};

class EagerLevel {
 public:
  EagerLevel(const EagerCall& call, const at::Tensor& spatial_shapes,
             const at::Tensor& level_start_index, int64_t level);

  // Number 0 to 3: top left, top right, bottom left, bottom right.
  LevelCorner corner(int number) const;
  // The pixels of a corner: (B, Q, G, K, D).
  at::Tensor pixels(const LevelCorner& corner) const;

  at::Tensor height, width;  // int64, without dimensions: nothing waits for the host to read them
  at::Tensor counted;        // bool
  at::Tensor weights;        // 0 where not counted

 private:
  const EagerCall& call_;
  at::Tensor first_row_;
  at::Tensor x_, y_;  // in pixels; 0 where not counted
};

}  // namespace deform::ops
