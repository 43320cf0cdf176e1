// The forward kernel's code for heads of whole 16-byte packs, 2 to 16 of them: a warp has several
// queries' heads, with a lane for each pack of a head. First all its lanes place the points of all
// those heads, one point a lane; then each head's lanes gather together, so that a lane computes no
// address or weight that another computes too, and eight lanes read whole sectors.
#pragma once

#include "common/bilinear_cuda.cuh"
#include "msda/msda_cuda_points.cuh"

namespace deform::kernels::cuda {

constexpr int kMsdaWarps = 4;         // of a block
constexpr int kMsdaBlocksAtOnce = 8;  // on a multiprocessor: 64 registers a thread
constexpr int kMsdaWarpLevels = 8;    // at most
constexpr int kMsdaWarpPoints = 64;   // of all levels, at most

// A point as lanes take it: where its cell begins, in bytes from the map's first head, the cell's
// shares and the point's weight. A cell lies inside its level, but for levels one pixel wide or
// high: a point beyond the first or last pixel's centre has that pixel's side of the cell alone,
// with the share of the side that isn't there taken off its weight.
struct alignas(16) PlacedPoint {
  uint32_t offset;
  float to_right, to_bottom, weight;
};

// Elements of locations and weights as they lie in memory. Converting them would wait for them.
struct RawPoint {
  uint2 location;
  uint32_t weight;
};

// An element of a type of 2 or 4 bytes.
__device__ __forceinline__ uint32_t read_bits(const void* array, Dtype dtype, int64_t i) {
  return dtype == Dtype::kFloat32 ? static_cast<const uint32_t*>(array)[i]
                                  : static_cast<const uint16_t*>(array)[i];
}

__device__ __forceinline__ RawPoint read_point(const MsdaCudaArguments& a, int64_t point) {
  RawPoint raw;
  if (a.locations_dtype == Dtype::kFloat32) {
    raw.location = __ldcs(static_cast<const uint2*>(a.locations) + point);
  } else {
    const uint32_t both = __ldcs(static_cast<const uint32_t*>(a.locations) + point);
    raw.location = make_uint2(both & 0xffffu, both >> 16);
  }
  raw.weight = read_bits(a.weights, a.weights_dtype, point);
  return raw;
}

__device__ __forceinline__ PlacedPoint place_point(const Level<float>& level, float x, float y,
                                                   float weight, uint32_t head_offset,
                                                   uint32_t row_bytes) {
  // Whatever pixel it names, its weight is 0.
  if (!counts(level, x, y)) return {head_offset, 0.f, 0.f, 0.f};
  const float floor_x = floorf(x), floor_y = floorf(y);
  const int left = static_cast<int>(floor_x), top = static_cast<int>(floor_y);
  float to_right = x - floor_x, to_bottom = y - floor_y;
  if (left < 0) {
    weight *= to_right;
    to_right = 0.f;
  } else if (left + 1 >= level.int_width) {
    weight *= 1.f - to_right;
    to_right = level.int_width > 1 ? 1.f : 0.f;
  }
  if (top < 0) {
    weight *= to_bottom;
    to_bottom = 0.f;
  } else if (top + 1 >= level.int_height) {
    weight *= 1.f - to_bottom;
    to_bottom = level.int_height > 1 ? 1.f : 0.f;
  }
  const int column = max(min(left, level.int_width - 2), 0);
  const int line = max(min(top, level.int_height - 2), 0);
  const uint32_t row = static_cast<uint32_t>(level.first_row + line * level.int_width + column);
  return {head_offset + row * row_bytes, to_right, to_bottom, weight};
}

// Halves' weights needn't have more digits than the fast exponential gives.
template <class T>
__device__ __forceinline__ float exponential(float x) {
  return sizeof(T) == 2 ? __expf(x) : expf(x);
}

template <class T, int kWidth>
__device__ __forceinline__ void add_pack(const uint4& pack, float weight, float (&sum)[kWidth]) {
  const uint32_t words[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      sum[i] += weight * __uint_as_float(words[i]);
    } else {
      const float2 pair = pair_of<T>(words[i]);
      sum[2 * i] += weight * pair.x;
      sum[2 * i + 1] += weight * pair.y;
    }
  }
}

// The same sum, point by point, of pixels that have a share alone.
template <class T, int kWidth>
__device__ __forceinline__ void add_points(const MsdaCudaArguments& a, int64_t query_head,
                                           const T* image, float largest, float (&sum)[kWidth]) {
  const int64_t row_stride = a.heads * a.channels;
  int64_t p = query_head * a.levels * a.points;
  for (int64_t l = 0; l < a.levels; ++l) {
    const Level<float> level = read_level<float>(a, l);
    for (int64_t k = 0; k < a.points; ++k, ++p) {
      const float x = load_as<float>(a.locations, a.locations_dtype, 2 * p) * level.width - 0.5f;
      const float y =
          load_as<float>(a.locations, a.locations_dtype, 2 * p + 1) * level.height - 0.5f;
      float weight = load_as<float>(a.weights, a.weights_dtype, p);
      if (a.softmax) weight = exponential<T>(weight - largest);
      add_point(image, row_stride, level, x, y, weight, sum);
    }
  }
}

// By a block of kMsdaWarps warps with dynamic shared memory for each warp's points; `heads` is how
// many queries' heads there are. kLanes: packs of a head. kPoints, kLevels: those of the call, or 0
// where they aren't known.
template <class T, int kLanes, int kPoints, int kLevels>
__device__ __forceinline__ void msda_warp_block(const MsdaCudaArguments& a, void* output,
                                                const uint32_t heads) {
  constexpr int kHeads = 32 / kLanes;  // of a warp
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  constexpr bool kKnown = kPoints > 0 && kLevels > 0;
  constexpr int kOwn = kKnown ? (kPoints * kLevels + kLanes - 1) / kLanes : 1;
  constexpr int kRounds = kKnown ? (kHeads * kPoints * kLevels + 31) / 32 : 1;
  const int points = kPoints > 0 ? kPoints : static_cast<int>(a.points);
  const int levels = kLevels > 0 ? kLevels : static_cast<int>(a.levels);
  const int of_head = points * levels;
  const int stride = of_head | 1;  // odd: heads' points start on different banks
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ Level<float> table[kMsdaWarpLevels];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  PlacedPoint* placed = reinterpret_cast<PlacedPoint*>(shared) + warp * kHeads * stride;
  for (int l = static_cast<int>(threadIdx.x); l < levels; l += 32 * kMsdaWarps) {
    table[l] = read_level<float>(a, l);
  }
  __syncthreads();
  const uint32_t first = (blockIdx.x * kMsdaWarps + warp) * kHeads;
  if (first >= heads) return;

  // What the warp reads first is on its way while the rest is computed.
  const int64_t first_point = static_cast<int64_t>(first) * of_head;
  const int given = min(kHeads, static_cast<int>(heads - first)) * of_head;
  const auto read = [&](int i) {
    return i < given ? read_point(a, first_point + i) : RawPoint{make_uint2(0, 0), 0};
  };
  RawPoint raw[kRounds];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) raw[round] = read(32 * round + lane);
  // Weights of the lane's own head, one in kLanes.
  const int own = lane / kLanes, pack = lane % kLanes;
  const uint32_t query_head = min(first + own, heads - 1);
  const auto read_own = [&](int i) {
    const int p = min(i * kLanes + pack, of_head - 1);
    return read_bits(a.weights, a.weights_dtype, static_cast<int64_t>(query_head) * of_head + p);
  };
  uint32_t own_weights[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) own_weights[i] = read_own(i);

  const uint32_t query = query_head / static_cast<uint32_t>(a.heads);
  const uint32_t head = query_head - query * static_cast<uint32_t>(a.heads);
  const uint32_t batch = query / static_cast<uint32_t>(a.queries);
  const uint32_t row_bytes = static_cast<uint32_t>(a.heads * a.channels * sizeof(T));
  const uint32_t head_offset = batch * static_cast<uint32_t>(a.rows) * row_bytes +
                               head * static_cast<uint32_t>(a.channels * sizeof(T));
  float largest = 0.f, scale = 1.f;
  if (a.softmax) {
    const auto logit = [&](int i) {
      const int p = i * kLanes + pack;
      return p < of_head ? float_of(own_weights[kKnown ? i : 0], a.weights_dtype) : -INFINITY;
    };
    largest = -INFINITY;
    float total = 0.f;
    // fmax drops NaN, but the exponential of the NaN brings it back.
    if constexpr (kKnown) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) largest = fmaxf(largest, logit(i));
    } else {
      for (int i = 0; i * kLanes < of_head; ++i) {
        own_weights[0] = read_own(i);
        largest = fmaxf(largest, logit(i));
      }
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
    }
    if constexpr (kKnown) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) total += exponential<T>(logit(i) - largest);
    } else {
      for (int i = 0; i * kLanes < of_head; ++i) {
        own_weights[0] = read_own(i);
        total += exponential<T>(logit(i) - largest);
      }
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
      total += __shfl_xor_sync(0xffffffffu, total, step);
    }
    scale = 1.f / total;
  }

  const auto place = [&](int i, const RawPoint& point) {
    // Exact for what a warp can have: quotients below 2^11 of numbers below 2^12.
    const int of = kKnown ? i / of_head : static_cast<int>((i + 0.5f) / of_head);
    const int p = i - of * of_head;
    const int l = kPoints > 0 ? p / points : static_cast<int>((p + 0.5f) / points);
    const int from = min(of, kHeads - 1) * kLanes;
    const uint32_t its_offset = __shfl_sync(0xffffffffu, head_offset, from);
    float weight = float_of(point.weight, a.weights_dtype);
    if (a.softmax) weight = exponential<T>(weight - __shfl_sync(0xffffffffu, largest, from));
    if (i >= given) return;
    const Level<float> level = table[l];
    const float x = float_of(point.location.x, a.locations_dtype) * level.width - 0.5f;
    const float y = float_of(point.location.y, a.locations_dtype) * level.height - 0.5f;
    placed[of * stride + p] = place_point(level, x, y, weight, its_offset, row_bytes);
  };
  if constexpr (kKnown) {
#pragma unroll
    for (int round = 0; round < kRounds; ++round) place(32 * round + lane, raw[round]);
  } else {
    for (int i = lane; i - lane < kHeads * of_head; i += 32) {
      const RawPoint next = read(i + 32);
      place(i, raw[0]);
      raw[0] = next;
    }
  }
  __syncwarp();

  float sum[kWidth] = {};
  const char* top_left = static_cast<const char*>(a.value) + pack * 16;
  const PlacedPoint* point = placed + own * stride;
#pragma unroll(kLevels > 0 ? kLevels : 1)
  for (int l = 0; l < levels; ++l) {
    const uint32_t width = static_cast<uint32_t>(table[l].int_width);
    const uint32_t down = table[l].int_height > 1 ? width * row_bytes : 0;
    const char* top_right = top_left + (width > 1 ? row_bytes : 0);
    const char* bottom_left = top_left + down;
    const char* bottom_right = top_right + down;
#pragma unroll 4
    for (int k = 0; k < points; ++k) {
      const PlacedPoint at = *point++;
      const auto corner = [&](const char* first_pixel) {
        return __ldg(reinterpret_cast<const uint4*>(first_pixel + at.offset));
      };
      const uint4 packs[4] = {corner(top_left), corner(top_right), corner(bottom_left),
                              corner(bottom_right)};
      const float bottom = at.weight * at.to_bottom, top = at.weight - bottom;
      const float right_of_bottom = bottom * at.to_right, right_of_top = top * at.to_right;
      add_pack<T>(packs[0], top - right_of_top, sum);
      add_pack<T>(packs[1], right_of_top, sum);
      add_pack<T>(packs[2], bottom - right_of_bottom, sum);
      add_pack<T>(packs[3], right_of_bottom, sum);
    }
  }
  if (first + own >= heads) return;
  const int64_t element = static_cast<int64_t>(query_head) * a.channels + pack * kWidth;
  bool is_number = true;
#pragma unroll
  for (int c = 0; c < kWidth; ++c) is_number = is_number && sum[c] == sum[c];
  if (!is_number) {
    // An infinite pixel without a share may have done that.
#pragma unroll
    for (int c = 0; c < kWidth; ++c) sum[c] = 0.f;
    const char* image = static_cast<const char*>(a.value) + head_offset + pack * 16;
    add_points(a, query_head, reinterpret_cast<const T*>(image), largest, sum);
  }
  Pack<T, kWidth> result;
#pragma unroll
  for (int c = 0; c < kWidth; ++c) result.element[c] = narrow<T>(sum[c] * scale);
  *reinterpret_cast<Pack<T, kWidth>*>(static_cast<T*>(output) + element) = result;
}

}  // namespace deform::kernels::cuda
