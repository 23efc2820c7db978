#include "ops/cuda/launch/placed_operand.h"

#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/kernels/quantize.h"
#include "ops/cuda/launch/random_bits.h"

namespace viaduct::cuda {

PlacedOperand::PlacedOperand(const GroupedOperand& place, const Operand& from,
                             const Tensor& offsets, int64_t matrices, void* workspace)
    : place_(place),
      rows_{from.dim(0), place.of_rows ? 0 : from.dim(0) / matrices, matrices, nullptr} {
  if (place.of_rows) rows_.offsets = offsets.data<int32_t>();
  const bool one_scale = has_one_scale(place.form);
  if (place.made) {
    char* const memory = static_cast<char*>(workspace);
    values_ = reinterpret_cast<uint8_t*>(memory + place.values_at);
    scales_ = memory + place.scales_at;
    matrix_scales_ = reinterpret_cast<float*>(memory + place.matrix_scales_at);
  } else {
    values_ = static_cast<uint8_t*>(from.values().raw());
    scales_ = from.scales().raw();
    matrix_scales_ =
        one_scale ? from.scales().data<float>() : pointer_of<float>(from.matrix_scale());
  }
  if (one_scale) scales_ = nullptr;
  if (!has_matrix_scale(place.form)) matrix_scales_ = nullptr;
}

void PlacedOperand::make_fp8(std::string_view op, const Tensor& matrix, const Tensor& amax,
                             Stream stream) const {
  QuantizedRows rows{rows_of(op, matrix), rows_,
                     place_.columns,      values_,
                     place_.stride,       place_.form.element == DType::e5m2};
  const bool powers = place_.form.scales->dtype == DType::e8m0;
  rows.amax = pointer_of<float>(amax);
  rows.scale_powers = powers ? static_cast<uint8_t*>(scales_) : nullptr;
  rows.scales = powers               ? nullptr
                : scales_ == nullptr ? matrix_scales_
                                     : static_cast<float*>(scales_);
  rows.group_rows = place_.group_rows, rows.group_columns = place_.group_columns;
  rows.scale_matrix_stride = place_.scale_matrix_stride;
  rows.scale_row_stride = place_.scale_row_stride;
  rows.scale_column_stride = place_.scale_column_stride;
  quantize(rows, stream);
}

void PlacedOperand::make_nvfp4(std::string_view op, const Tensor& matrix, const Tensor& amax,
                               const StochasticRounding& rounding, Stream stream) const {
  Nvfp4Rows rows{rows_of(op, matrix), rows_, place_.columns};
  rows.rotated = place_.form.rotated, rows.complete_rows = place_.complete_rows;
  rows.amax = amax.data<float>(), rows.matrix_scale = matrix_scales_;
  rows.values = values_, rows.values_stride = place_.stride / 2;
  rows.scales = static_cast<uint8_t*>(scales_);
  rows.scale_matrix_stride = place_.scale_matrix_stride;
  rows.scale_row_stride = place_.scale_row_stride;
  rows.scale_column_stride = place_.scale_column_stride;
  rows.group_rows = static_cast<int>(place_.group_rows);
  rows.group_columns = static_cast<int>(place_.group_columns);
  rows.random = random_bits(rounding, place_.form.orientation == Orientation::row_wise);
  rows.random.one_token = place_.of_rows;
  quantize_nvfp4(rows, stream);
}

void PlacedOperand::make(std::string_view op, const Operand& from, const Tensor& amax,
                         const StochasticRounding& rounding, Stream stream) const {
  if (!place_.made || from.dim(0) == 0) return;
  if (place_.form.element == DType::e2m1x2)
    return make_nvfp4(op, from.tensor(), amax, rounding, stream);
  make_fp8(op, from.tensor(), amax, stream);
}

CodedOperand PlacedOperand::coded() const {
  const auto form = [&] {
    if (has_one_scale(place_.form)) return GroupScales::none;
    if (place_.form.scales->dtype == DType::e8m0) return GroupScales::e8m0;
    return place_.form.scales->dtype == DType::e4m3 ? GroupScales::e4m3 : GroupScales::f32;
  };
  return {values_,
          place_.stride,
          rows_,
          place_.complete_rows,
          place_.form.element == DType::e5m2,
          form(),
          scales_,
          place_.group_rows,
          place_.group_columns,
          place_.scale_matrix_stride,
          place_.scale_row_stride,
          place_.scale_column_stride,
          matrix_scales_};
}

}  // namespace viaduct::cuda
