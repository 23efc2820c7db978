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

/// Where the scale of the group of an element is, and how far that of the next columns is from it.
struct ScalePlace {
  int64_t first, step;
};

ScalePlace scale_place(const Operand& operand, int64_t row, int64_t column) {
  const GroupSize group = group_of(operand.form());
  const int64_t r = row / group.rows, c = column / group.columns;
  const int64_t stride = operand.scales().stride(0);
  if (operand.form().orientation == Orientation::row_wise) return {r * stride + c, 1};
  return {c * stride + r, stride};
}

/// Stores powers of two, or NaN: as e8m0 they are the exponents of FP32.
void store_powers(const Tensor& to, ScalePlace place, const float* scales, int64_t count) {
  if (to.dtype() == DType::e8m0) {
    auto* const codes = static_cast<uint8_t*>(to.raw()) + place.first;
    for (int64_t g = 0; g < count; ++g)
      codes[g * place.step] = static_cast<uint8_t>(std::bit_cast<uint32_t>(scales[g]) >> 23);
  } else {
    float* const values = to.data<float>() + place.first;
    for (int64_t g = 0; g < count; ++g) values[g * place.step] = scales[g];
  }
}

void load_scales(const Tensor& from, ScalePlace place, float* scales, int64_t count) {
  if (from.dtype() == DType::e8m0) {
    const float8_e8m0* const codes = from.data<float8_e8m0>() + place.first;
    for (int64_t g = 0; g < count; ++g) scales[g] = static_cast<float>(codes[g * place.step]);
  } else {
    const float* const values = from.data<float>() + place.first;
    for (int64_t g = 0; g < count; ++g) scales[g] = values[g * place.step];
  }
}

/// `count` scales for kernels; `exponents` is memory for as many.
GroupScales group_scales(const float* scales, int64_t count, int64_t width, int16_t* exponents) {
  uint32_t bad = 0;  // a plain loop without branches, of which compilers make vectors
  for (int64_t g = 0; g < count; ++g) {
    const auto bits = std::bit_cast<uint32_t>(scales[g]);
    const int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
    bad |= (bits & 0x7fffffu) | static_cast<uint32_t>(exponent + 100 < 0) |
           static_cast<uint32_t>(exponent > 100);
    exponents[g] = static_cast<int16_t>(exponent * kBf16Exponent);
  }
  return {scales, bad == 0 ? exponents : nullptr, width};
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
/// too; all are powers of two, or NaN. Returns their number.
int64_t make_scales(const ConvertOperandArgs& args, const QuantizeKernels& kernels, int64_t row,
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
  store_powers(args.out.scales(), scale_place(args.out, row, column), scales, groups);
  return groups;
}

/// Rows of one group of rows, at most kQuantizeColumns columns.
void quantize_group(const ConvertOperandArgs& args, const QuantizeKernels& kernels, int64_t row,
                    int64_t rows, int64_t column, int64_t columns) {
  alignas(64) float scales[kQuantizeColumns];
  alignas(64) int16_t exponents[kQuantizeColumns];
  const OperandForm& form = args.out.form();
  const int64_t count = make_scales(args, kernels, row, rows, column, columns, scales);
  const GroupScales groups = group_scales(scales, count, group_of(form).columns, exponents);
  for (int64_t r = row; r < row + rows; ++r) {
    kernels.encode_groups(row_address(args.matrix, r, column), args.matrix.dtype(), groups, columns,
                          *form.element, codes_at(args.out.values(), r, column));
  }
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
  if (!has_one_scale(form)) {
    return for_pieces(pool, args.matrix.shape(), height_of(form),
                      [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
                        quantize_group(args, kernels, row, rows, column, columns);
                      });
  }
  const float scale = operand_scale(args.amax.data<float>()[0], *form.element, *form.scales);
  args.out.scales().data<float>()[0] = scale;
  for_pieces(pool, args.matrix.shape(), 1,
             [&](int64_t row, int64_t, int64_t column, int64_t columns) {
               kernels.encode(row_address(args.matrix, row, column), args.matrix.dtype(), scale,
                              columns, *form.element, codes_at(args.out.values(), row, column));
             });
}

void quantize_part(const ConvertOperandArgs& args, const QuantizeKernels& kernels, int64_t row,
                   int64_t rows, int64_t column, int64_t columns) {
  const int64_t height = height_of(args.out.form());
  for (int64_t r = row; r < row + rows; r += height) {
    for (int64_t c = column; c < column + columns; c += kQuantizeColumns) {
      quantize_group(args, kernels, r, std::min(height, row + rows - r), c,
                     std::min(kQuantizeColumns, column + columns - c));
    }
  }
}

void widen(ThreadPool& pool, const Operand& operand, const Tensor& to,
           const QuantizeKernels& kernels) {
  const OperandForm& form = operand.form();
  const bool whole = has_one_scale(form);
  for_pieces(pool, operand.shape(), height_of(form),
             [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
               alignas(64) float scales[kQuantizeColumns];
               alignas(64) int16_t exponents[kQuantizeColumns];
               GroupScales groups;
               if (!whole) {
                 const int64_t width = group_of(form).columns;
                 const int64_t count = (columns + width - 1) / width;
                 load_scales(operand.scales(), scale_place(operand, row, column), scales, count);
                 groups = group_scales(scales, count, width, exponents);
               }
               for (int64_t r = row; r < row + rows; ++r) {
                 const uint8_t* const codes = codes_at(operand.values(), r, column);
                 bfloat16* const out = to.data<bfloat16>() + r * to.stride(0) + column;
                 if (whole) {
                   kernels.widen(codes, *form.element, columns, out);
                 } else {
                   kernels.widen_groups(codes, *form.element, groups, columns, out);
                 }
               }
             });
}

float whole_scale(const Operand& operand) {
  if (operand.matrix_scale()) return operand.matrix_scale().data<float>()[0];
  return has_one_scale(operand.form()) ? operand.scales().data<float>()[0] : 1;
}

}  // namespace viaduct::cpu
