#include "train/cuda/column_sums.hpp"

namespace rubato::train::cuda {

Result<ColumnSums> ColumnSums::make(Gpu& gpu, int rows_max, int columns) {
  ColumnSums sums;
  sums.columns_ = columns;
  const std::uint32_t parts = parts_of_sum(static_cast<std::size_t>(rows_max));
  if (parts > 1) {
    RUBATO_ASSIGN(sums.parts_, allocate_floats(gpu, static_cast<std::size_t>(parts) * columns));
  }
  return sums;
}

void ColumnSums::add(Gpu& gpu, float* values, const float* y, int rows, float* sums) const {
  const std::uint32_t parts = parts_of_sum(static_cast<std::size_t>(rows));
  const auto columns = static_cast<std::uint32_t>(columns_);
  float* const first = parts == 1 ? sums : parts_.as<float>();
  gpu.launch(Stream::Compute, static_cast<std::size_t>(parts) * columns,
             SumColumns{values, y, first, static_cast<std::uint32_t>(rows), columns, parts});
  if (parts > 1) gpu.launch(Stream::Compute, columns, AddColumnParts{first, sums, parts, columns});
}

}  // namespace rubato::train::cuda
