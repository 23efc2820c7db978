#include "ops/cuda/grouped_operands.h"

#include "ops/cuda/kernels/matrix_rows.h"
#include "ops/cuda/regions.h"
#include "tensor/nvfp4.h"

namespace viaduct::cuda {
namespace {

/// Elements at whose multiples rows of codes begin, so that 16 are read at once.
constexpr int64_t kCodesTogether = 16;

/// Groups of elements with a scale, of `matrices` with `rows` rows in all.
void place_scales(GroupedOperand& operand, int64_t rows, int64_t matrices) {
  const OperandForm& form = operand.form;
  const bool row_wise = form.orientation == Orientation::row_wise;
  const OperandExtent& group = form.scales->group;
  operand.group_rows = row_wise ? group.kept : group.contracted;
  operand.group_columns = row_wise ? group.contracted : group.kept;
  const int64_t across = pieces_of(operand.columns, operand.group_columns);
  if (operand.of_rows) {
    operand.scale_row_stride = across, operand.scale_column_stride = 1;
    operand.scales_bytes = groups_of_offsets(rows, matrices, operand.group_rows) * across;
  } else {
    // As in a stack: [groups along kept, groups along contracted] of each.
    const int64_t down = pieces_of(rows / matrices, operand.group_rows);
    operand.scale_row_stride = row_wise ? across : 1;
    operand.scale_column_stride = row_wise ? 1 : down;
    operand.scale_matrix_stride = down * across;
    operand.scales_bytes = matrices * down * across;
  }
  operand.scales_bytes *= dtype_bytes(form.scales->dtype);
}

}  // namespace

GroupedOperand grouped_operand(const OperandForm& form, const Operand& from, bool of_rows,
                               int64_t matrices, int64_t& end) {
  GroupedOperand operand{form};
  const int64_t rows = from.dim(0);
  const bool halves = form.element == DType::e2m1x2;
  operand.made = from.form().plain();
  operand.of_rows = of_rows;
  operand.complete_rows = of_rows && halves;
  operand.columns = from.dim(1);
  operand.stride = operand.made ? rounded_up(operand.columns, kCodesTogether) : operand.columns;
  if (!has_one_scale(form)) place_scales(operand, rows, matrices);
  if (!operand.made) {
    operand.scales_bytes = 0;
    return operand;
  }
  const int64_t code_rows = operand.complete_rows
                                ? kCodesTogether * groups_of_offsets(rows, matrices, kCodesTogether)
                                : rows;
  operand.values_bytes = code_rows * operand.stride / (halves ? 2 : 1);
  if (has_matrix_scale(form)) operand.matrix_scales_bytes = matrices * dtype_bytes(DType::f32);
  operand.values_at = take_region(end, operand.values_bytes);
  operand.scales_at = take_region(end, operand.scales_bytes);
  operand.matrix_scales_at = take_region(end, operand.matrix_scales_bytes);
  return operand;
}

GroupedOperands grouped_operands(const GroupedGemmArgs& args) {
  const GemmForms forms = expert_forms(args);
  const int64_t experts = args.offsets.dim(0) - 1;
  GroupedOperands operands;
  operands.a = grouped_operand(forms.a, args.a, true, experts, operands.workspace_bytes);
  operands.b = grouped_operand(forms.b, args.b, args.form == GemmForm::weight_gradient, experts,
                               operands.workspace_bytes);
  return operands;
}

}  // namespace viaduct::cuda
