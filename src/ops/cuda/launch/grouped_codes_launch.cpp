// Launches of quantized products of experts: the operands that are made here, and the product.

#include "ops/cuda/grouped_operands.h"
#include "ops/cuda/kernels/grouped_warpgroups.h"
#include "ops/cuda/kernels/nvfp4.h"
#include "ops/cuda/kernels/quantize.h"
#include "ops/cuda/launch/grouped_codes.h"
#include "ops/cuda/launch/random_bits.h"

namespace viaduct::cuda {
namespace {

constexpr std::string_view kOp = "grouped_gemm";

/// Memory and rows of an operand.
struct Placed {
  const GroupedOperand& place;
  MatrixRows rows;
  uint8_t* values;
  void* scales;  // of groups
  float* matrix_scales;
};

Placed placed(const GroupedOperand& place, const Operand& from, const GroupedGemmArgs& args,
              void* workspace) {
  const int64_t experts = args.offsets.dim(0) - 1, rows = from.dim(0);
  Placed operand{
      place, {rows, place.of_rows ? 0 : rows / experts, experts}, nullptr, nullptr, nullptr};
  if (place.of_rows) operand.rows.offsets = args.offsets.data<int32_t>();
  const bool one_scale = has_one_scale(place.form);
  if (place.made) {
    char* const memory = static_cast<char*>(workspace);
    operand.values = reinterpret_cast<uint8_t*>(memory + place.values_at);
    operand.scales = memory + place.scales_at;
    operand.matrix_scales = reinterpret_cast<float*>(memory + place.matrix_scales_at);
  } else {
    operand.values = static_cast<uint8_t*>(from.values().raw());
    operand.scales = from.scales().raw();
    operand.matrix_scales =
        one_scale ? from.scales().data<float>() : pointer_of<float>(from.matrix_scale());
  }
  if (one_scale) operand.scales = nullptr;
  if (!has_matrix_scale(place.form)) operand.matrix_scales = nullptr;
  return operand;
}

void make_fp8(const Placed& operand, const Tensor& matrix, const Tensor& amax, Stream stream) {
  const GroupedOperand& place = operand.place;
  QuantizedRows rows{rows_of(kOp, matrix), operand.rows, place.columns,
                     operand.values,       place.stride, place.form.element == DType::e5m2};
  const bool powers = place.form.scales->dtype == DType::e8m0;
  rows.amax = pointer_of<float>(amax);
  rows.scale_powers = powers ? static_cast<uint8_t*>(operand.scales) : nullptr;
  rows.scales = powers                      ? nullptr
                : operand.scales == nullptr ? operand.matrix_scales
                                            : static_cast<float*>(operand.scales);
  rows.group_rows = place.group_rows, rows.group_columns = place.group_columns;
  rows.scale_matrix_stride = place.scale_matrix_stride;
  rows.scale_row_stride = place.scale_row_stride;
  rows.scale_column_stride = place.scale_column_stride;
  quantize(rows, stream);
}

void make_nvfp4(const Placed& operand, const Tensor& matrix, const Tensor& amax,
                const StochasticRounding& rounding, Stream stream) {
  const GroupedOperand& place = operand.place;
  Nvfp4Rows rows{rows_of(kOp, matrix), operand.rows, place.columns};
  rows.rotated = place.form.rotated, rows.complete_rows = place.complete_rows;
  rows.amax = amax.data<float>(), rows.matrix_scale = operand.matrix_scales;
  rows.values = operand.values, rows.values_stride = place.stride / 2;
  rows.scales = static_cast<uint8_t*>(operand.scales);
  rows.scale_matrix_stride = place.scale_matrix_stride;
  rows.scale_row_stride = place.scale_row_stride;
  rows.scale_column_stride = place.scale_column_stride;
  rows.group_rows = static_cast<int>(place.group_rows);
  rows.group_columns = static_cast<int>(place.group_columns);
  rows.random = random_bits(rounding, place.form.orientation == Orientation::row_wise);
  rows.random.one_token = true;
  quantize_nvfp4(rows, stream);
}

void make(const Placed& operand, const Operand& from, const Tensor& amax,
          const StochasticRounding& rounding, Stream stream) {
  if (!operand.place.made || from.dim(0) == 0) return;
  if (operand.place.form.element == DType::e2m1x2)
    return make_nvfp4(operand, from.tensor(), amax, rounding, stream);
  make_fp8(operand, from.tensor(), amax, stream);
}

GroupScales scales_of(const OperandForm& form) {
  if (has_one_scale(form)) return GroupScales::none;
  if (form.scales->dtype == DType::e8m0) return GroupScales::e8m0;
  return form.scales->dtype == DType::e4m3 ? GroupScales::e4m3 : GroupScales::f32;
}

CodedOperand coded(const Placed& operand) {
  const GroupedOperand& place = operand.place;
  return {operand.values,
          place.stride,
          operand.rows,
          place.complete_rows,
          place.form.element == DType::e5m2,
          scales_of(place.form),
          operand.scales,
          place.group_rows,
          place.group_columns,
          place.scale_matrix_stride,
          place.scale_row_stride,
          place.scale_column_stride,
          operand.matrix_scales};
}

}  // namespace

void launch_grouped_codes(OpContext& context, const Choice& choice, const GroupedGemmArgs& args,
                          const GroupedShape& shape, void* workspace) {
  const auto& operands = *static_cast<const GroupedOperands*>(choice.plan.get());
  const Stream stream = stream_of(context);
  const Placed a = placed(operands.a, args.a, args, workspace);
  const Placed b = placed(operands.b, args.b, args, workspace);
  make(a, args.a, args.a_amax, args.rounding, stream);
  make(b, args.b, args.b_amax, {}, stream);
  CodedProduct product{shape, coded(a), coded(b)};
  product.halves = operands.a.form.element == DType::e2m1x2;
  product.complete = operands.a.form.rotated;
  if (!product.halves && !has_one_scale(operands.a.form))
    product.group = operands.a.form.scales->group.contracted;
  operands.warpgroups ? grouped_code_warpgroups(product, stream) : grouped_codes(product, stream);
}

}  // namespace viaduct::cuda
