#include "ops/cpu/gemm/quantize.h"

#include <algorithm>
#include <bit>

#include "ops/cpu/rows/runs.h"
#include "tensor/number_formats.h"
#include "tensor/operand_scale.h"

namespace viaduct::cpu {
namespace {

/// Elements that share a scale, as rows × columns of the matrix.
struct GroupSize {
  int64_t rows = 1, columns = 1;
};

GroupSize group_of(const OperandForm& form) {
  const OperandExtent& group = form.scales->group;
  return form.orientation == Orientation::row_wise ? GroupSize{group.kept, group.contracted}
                                                   : GroupSize{group.contracted, group.kept};
}

/// The place of the scale of element (row, column) among the scales.
int64_t scale_place(const Operand& operand, int64_t row, int64_t column) {
  const GroupSize group = group_of(operand.form());
  const int64_t r = row / group.rows, c = column / group.columns;
  const int64_t stride = operand.scales().stride(0);
  return operand.form().orientation == Orientation::row_wise ? r * stride + c : c * stride + r;
}

/// Stores a power of two, or NaN: as e8m0 it is the exponent of FP32.
void store_power(const Tensor& scales, int64_t place, float scale) {
  if (scales.dtype() == DType::e8m0) {
    scales.data<float8_e8m0>()[place].bits =
        static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> 23);
  } else {
    scales.data<float>()[place] = scale;
  }
}

float scale_at(const Tensor& scales, int64_t place) {
  return scales.dtype() == DType::e8m0 ? static_cast<float>(scales.data<float8_e8m0>()[place])
                                       : scales.data<float>()[place];
}

/// Calls body(row, rows, column, columns) on the pool for pieces that cover the matrix: at most
/// kQuantizeColumns columns, and `height` rows (fewer at the end), all of one group of rows.
template <class Body>
void for_pieces(ThreadPool& pool, const Shape& matrix, int64_t height, const Body& body) {
  const int64_t rows = matrix[0], columns = matrix[1];
  if (rows == 0 || columns == 0) return;
  const int64_t width = std::min(columns, kQuantizeColumns);
  const int64_t heights = std::max<int64_t>(1, kRunElements / (width * height));
  const int64_t rows_of_task = heights * height;
  const int64_t chunks = (columns + kQuantizeColumns - 1) / kQuantizeColumns;
  pool.run((rows + rows_of_task - 1) / rows_of_task * chunks, [&](int64_t task, int) {
    const int64_t column = task % chunks * kQuantizeColumns;
    const int64_t begin = task / chunks * rows_of_task;
    const int64_t end = std::min(rows, begin + rows_of_task);
    for (int64_t row = begin; row < end; row += height) {
      body(row, std::min(height, end - row), column, std::min(kQuantizeColumns, columns - column));
    }
  });
}

uint8_t* codes_at(const Tensor& values, int64_t row, int64_t column) {
  return static_cast<uint8_t*>(values.raw()) + row * values.stride(0) + column;
}

/// scales[g] = the scale of the group of (row, column + g · columns of a group), which this stores
/// too. All are powers of two.
void make_scales(const ConvertOperandArgs& args, const QuantizeKernels& kernels, int64_t row,
                 int64_t rows, int64_t column, int64_t columns, float* scales) {
  alignas(64) int32_t most[kQuantizeColumns];
  const DType dtype = args.matrix.dtype();
  const OperandForm& form = args.out.form();
  const int64_t width = group_of(form).columns, groups = (columns + width - 1) / width;
  if (rows == 1 && width > 1) {
    kernels.group_magnitudes(row_address(args.matrix, row, column), dtype, columns, width, most);
  } else {
    std::fill_n(most, columns, 0);
    for (int64_t r = row; r < row + rows; ++r)
      kernels.magnitudes(row_address(args.matrix, r, column), dtype, columns, most);
    for (int64_t g = 0; width > 1 && g < groups; ++g) {
      int32_t largest = 0;  // a plain loop, of which compilers make vectors
      for (int64_t c = g * width; c < std::min((g + 1) * width, columns); ++c)
        largest = most[c] > largest ? most[c] : largest;
      most[g] = largest;
    }
  }
  kernels.powers(most, groups, largest_element(*form.element), scales);
  for (int64_t g = 0; g < groups; ++g)
    store_power(args.out.scales(), scale_place(args.out, row, column + g * width), scales[g]);
}

/// Rows that share scales; of one scale for all, one row.
int64_t height_of(const OperandForm& form) {
  return has_one_scale(form) ? 1 : group_of(form).rows;
}

}  // namespace

bool is_quantized(const OperandForm& form) {
  if (form.layout != kRowMajor || !form.scales) return false;
  if (form.element != DType::e4m3 && form.element != DType::e5m2) return false;
  if (has_one_scale(form)) return form.scales->dtype == DType::f32;
  const GroupSize group = group_of(form);
  return group.rows > 0 && group.columns > 0 && kQuantizeColumns % group.columns == 0 &&
         (group.columns == 1 || group.columns % 16 == 0) &&
         (form.scales->dtype == DType::f32 || form.scales->dtype == DType::e8m0);
}

void quantize(ThreadPool& pool, const ConvertOperandArgs& args, const QuantizeKernels& kernels) {
  const OperandForm& form = args.out.form();
  const bool whole = has_one_scale(form);
  float scale = 1;
  if (whole) {
    scale = operand_scale(args.amax.data<float>()[0], *form.element, *form.scales);
    args.out.scales().data<float>()[0] = scale;
  }
  const int64_t width = whole ? 0 : group_of(form).columns;
  for_pieces(pool, args.matrix.shape(), height_of(form),
             [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
               alignas(64) float scales[kQuantizeColumns];
               if (!whole) make_scales(args, kernels, row, rows, column, columns, scales);
               const DType dtype = args.matrix.dtype();
               for (int64_t r = row; r < row + rows; ++r) {
                 const void* from = row_address(args.matrix, r, column);
                 uint8_t* const to = codes_at(args.out.values(), r, column);
                 if (whole) {
                   kernels.encode(from, dtype, scale, columns, *form.element, to);
                 } else {
                   kernels.encode_groups(from, dtype, scales, width, columns, *form.element, to);
                 }
               }
             });
}

void widen(ThreadPool& pool, const Operand& operand, const Tensor& to,
           const QuantizeKernels& kernels) {
  const OperandForm& form = operand.form();
  const bool whole = has_one_scale(form);
  for_pieces(pool, operand.shape(), height_of(form),
             [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
               alignas(64) float scales[kQuantizeColumns];
               const int64_t width = whole ? columns : group_of(form).columns;
               for (int64_t c = 0; c < columns && !whole; c += width) {
                 scales[c / width] =
                     scale_at(operand.scales(), scale_place(operand, row, column + c));
               }
               for (int64_t r = row; r < row + rows; ++r) {
                 kernels.widen(codes_at(operand.values(), r, column), *form.element,
                               whole ? nullptr : scales, width, columns,
                               to.data<bfloat16>() + r * to.stride(0) + column);
               }
             });
}

float whole_scale(const Operand& operand) {
  if (operand.matrix_scale()) return scale_at(operand.matrix_scale(), 0);
  return has_one_scale(operand.form()) ? scale_at(operand.scales(), 0) : 1;
}

}  // namespace viaduct::cpu
