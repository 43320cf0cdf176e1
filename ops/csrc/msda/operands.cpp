#include "msda/operands.h"

#include <c10/util/Exception.h>

#include <cstdint>

#include "common/checks.h"

namespace deform::ops {
namespace {

int64_t index_at(const at::Tensor& table, int64_t row, int64_t column) {
  int64_t offset = row * table.stride(0);
  if (table.dim() == 2) offset += column * table.stride(1);
  return table.scalar_type() == at::kInt ? table.const_data_ptr<int32_t>()[offset]
                                         : table.const_data_ptr<int64_t>()[offset];
}

}  // namespace

void check_msda_operands(const char* op, const at::Tensor& value, const at::Tensor& spatial_shapes,
                         const at::Tensor& level_start_index, const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights) {
  check_rank(op, "value", value, 4, "(B, S, G, D)");
  check_rank(op, "spatial_shapes", spatial_shapes, 2, "(L, 2)");
  check_rank(op, "level_start_index", level_start_index, 1, "(L)");
  check_rank(op, "sampling_locations", sampling_locations, 6, "(B, Q, G, L, K, 2)");
  TORCH_CHECK(attention_weights.dim() == 4 || attention_weights.dim() == 5, op,
              ": attention_weights must have 4 dimensions (B, Q, G, L*K) or 5 (B, Q, G, L, K), "
              "but has ",
              attention_weights.dim(), ": ", attention_weights.sym_sizes());

  check_float(op, "value", value);
  check_index(op, "spatial_shapes", spatial_shapes);
  check_index(op, "level_start_index", level_start_index);
  check_float(op, "sampling_locations", sampling_locations);
  check_float(op, "attention_weights", attention_weights);

  check_device(op, "spatial_shapes", spatial_shapes, value);
  check_device(op, "level_start_index", level_start_index, value);
  check_device(op, "sampling_locations", sampling_locations, value);
  check_device(op, "attention_weights", attention_weights, value);

  check_layout(op, "value", value);
  check_layout(op, "spatial_shapes", spatial_shapes);
  check_layout(op, "level_start_index", level_start_index);
  check_layout(op, "sampling_locations", sampling_locations);
  check_layout(op, "attention_weights", attention_weights);

  check_positive(op, "value", value, 1, "row");
  check_positive(op, "value", value, 2, "head");
  check_positive(op, "value", value, 3, "channel");
  check_positive(op, "spatial_shapes", spatial_shapes, 0, "level");
  check_positive(op, "sampling_locations", sampling_locations, 4, "point");

  const c10::SymInt batch = value.sym_size(0);
  const c10::SymInt heads = value.sym_size(2);
  const c10::SymInt levels = spatial_shapes.sym_size(0);
  const c10::SymInt queries = sampling_locations.sym_size(1);
  const c10::SymInt points = sampling_locations.sym_size(4);
  check_size(op, "spatial_shapes", spatial_shapes, 1, 2, "height and width");
  check_size(op, "level_start_index", level_start_index, 0, levels, "levels of spatial_shapes");
  check_size(op, "sampling_locations", sampling_locations, 0, batch, "batch of value");
  check_size(op, "sampling_locations", sampling_locations, 2, heads, "heads of value");
  check_size(op, "sampling_locations", sampling_locations, 3, levels, "levels of spatial_shapes");
  check_size(op, "sampling_locations", sampling_locations, 5, 2, "x and y");
  check_size(op, "attention_weights", attention_weights, 0, batch, "batch of value");
  check_size(op, "attention_weights", attention_weights, 1, queries,
             "queries of sampling_locations");
  check_size(op, "attention_weights", attention_weights, 2, heads, "heads of value");
  if (attention_weights.dim() == 4) {
    check_size(op, "attention_weights", attention_weights, 3, levels * points,
               "levels times points of sampling_locations");
  } else {
    check_size(op, "attention_weights", attention_weights, 3, levels, "levels of spatial_shapes");
    check_size(op, "attention_weights", attention_weights, 4, points,
               "points of sampling_locations");
  }
}

void check_msda_operands(const char* op, const at::Tensor& grad_output, const at::Tensor& value,
                         const at::Tensor& spatial_shapes, const at::Tensor& level_start_index,
                         const at::Tensor& sampling_locations,
                         const at::Tensor& attention_weights) {
  check_msda_operands(op, value, spatial_shapes, level_start_index, sampling_locations,
                      attention_weights);
  check_rank(op, "grad_output", grad_output, 3, "(B, Q, G*D)");
  TORCH_CHECK(grad_output.scalar_type() == value.scalar_type(), op,
              ": grad_output must have value's type, ", value.scalar_type(), ", but is ",
              grad_output.scalar_type());
  check_device(op, "grad_output", grad_output, value);
  check_layout(op, "grad_output", grad_output);
  check_size(op, "grad_output", grad_output, 0, value.sym_size(0), "batch of value");
  check_size(op, "grad_output", grad_output, 1, sampling_locations.sym_size(1),
             "queries of sampling_locations");
  check_size(op, "grad_output", grad_output, 2, value.sym_size(2) * value.sym_size(3),
             "heads times channels of value");
}

void check_msda_limits(const char* op, const at::Tensor& value,
                       const at::Tensor& sampling_locations) {
  TORCH_CHECK(value.size(1) <= INT32_MAX, op,
              ": value must have fewer than 2^31 rows (S), but has ", value.size(1));
  TORCH_CHECK(value.size(2) * value.size(3) <= INT32_MAX, op,
              ": value must have fewer than 2^31 channels over all heads (G*D), but has ",
              value.size(2) * value.size(3));
  const int64_t points = sampling_locations.size(3) * sampling_locations.size(4);
  TORCH_CHECK(points < (int64_t{1} << 29), op,
              ": sampling_locations must have fewer than 2^29 points for each query and head "
              "(L*K), but has ",
              points);
}

std::vector<kernels::MsdaLevel> read_level_table(const char* op, const at::Tensor& spatial_shapes,
                                                 const at::Tensor& level_start_index,
                                                 int64_t rows) {
  std::vector<kernels::MsdaLevel> table;
  table.reserve(static_cast<size_t>(spatial_shapes.size(0)));
  int64_t next_row = 0;
  for (int64_t level = 0; level < spatial_shapes.size(0); ++level) {
    const int64_t height = index_at(spatial_shapes, level, 0);
    const int64_t width = index_at(spatial_shapes, level, 1);
    const int64_t start = index_at(level_start_index, level, 0);
    TORCH_CHECK(height >= 1 && width >= 1, op, ": spatial_shapes[", level,
                "] must be a positive height and width, but is (", height, ", ", width, ")");
    TORCH_CHECK(start == next_row, op, ": level_start_index[", level, "] must be ", next_row,
                ", the rows of the levels before, but is ", start);
    TORCH_CHECK(height <= rows && width <= rows && next_row + height * width <= rows, op,
                ": spatial_shapes[", level, "] is (", height, ", ", width, "), starting at row ",
                start, ", and ends beyond the ", rows, " rows of value");
    next_row += height * width;
    table.push_back(
        {static_cast<int32_t>(height), static_cast<int32_t>(width), static_cast<int32_t>(start)});
  }
  TORCH_CHECK(next_row == rows, op, ": value must have ", next_row,
              " rows, the sum of height times width over spatial_shapes, but has ", rows);
  return table;
}

}  // namespace deform::ops
