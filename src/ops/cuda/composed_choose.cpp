// Choices for what is composed of ops on a GPU: the score matrix of unfused attention, and the
// steps of softmax cross entropy.

#include "ops/cuda/cuda_entry.h"
#include "ops/cuda/kernels/score_bias.h"
#include "ops/cuda/kernels/score_matrix.h"

namespace viaduct::cuda {
namespace {

/// Its tensor is f32.
template <class Args>
Choice choose_rows(std::string_view op, const Tensor& x, const Args& args, const Traits& traits) {
  VIADUCT_CHECK(DeviceError, x.dtype() == DType::f32, "{}: {} has no kernel for {}; it has f32", op,
                traits.name, dtype_name(x.dtype()));
  return choose_kernel("rows", args);
}

/// The 16-bit format of the inputs beside the matrix; f32 where they have none in common (a narrow
/// matrix has it too), or are wider than the kernels of matrix units: vector units compute these.
DType factor_dtype(const ScoreProductArgs& args) {
  const DType dtype = args.form == ScoreProduct::keys ? args.queries.dtype() : args.keys.dtype();
  const DType matrix = args.matrix.dtype();
  const bool alike = args.form == ScoreProduct::scores ? args.queries.dtype() == dtype
                                                       : matrix == DType::f32 || matrix == dtype;
  return alike && args.queries.dim(2) <= kWidestScores ? dtype : DType::f32;
}

/// A matrix of scores or of factors of products has any format but f64.
Choice choose_product(const ScoreProductArgs& args, const Traits& traits) {
  const DType dtype = factor_dtype(args);
  const bool matrix_units = dtype != DType::f32;
  Choice choice = choose_kernel("score_product", matrix_units ? "tiles_mma" : "tiles_f32",
                                args.matrix.dtype(), args, traits);
  choice.variant = matrix_units ? kMatrixScores : kVectorScores;
  use_matrix_units(choice.cost, dtype);
  return choice;
}
Choice choose_softmax(const ScoreSoftmaxArgs& args, const Traits& traits) {
  return choose_rows("score_softmax", args.matrix, args, traits);
}
Choice choose_softmax_backward(const ScoreSoftmaxBackwardArgs& args, const Traits& traits) {
  return choose_rows("score_softmax_backward", args.gradient, args, traits);
}
Choice choose_dropout(const ScoreDropoutArgs& args, const Traits& traits) {
  return choose_kernel("score_dropout", "rows", args.x.dtype(), args, traits);
}

Choice choose_soft_cap(const SoftCapArgs& args, const Traits& traits) {
  return choose_rows("soft_cap", args.x, args, traits);
}
Choice choose_soft_cap_backward(const SoftCapBackwardArgs& args, const Traits& traits) {
  return choose_rows("soft_cap_backward", args.z, args, traits);
}
Choice choose_largest(const RowLargestArgs& args, const Traits& traits) {
  return choose_rows("row_largest", args.x, args, traits);
}
Choice choose_exponential(const RowExponentialArgs& args, const Traits& traits) {
  return choose_rows("row_exponential", args.x, args, traits);
}
Choice choose_sum(const RowSumArgs& args, const Traits& traits) {
  return choose_rows("row_sum", args.x, args, traits);
}
Choice choose_divide(const RowDivideArgs& args, const Traits& traits) {
  return choose_rows("row_divide", args.x, args, traits);
}
Choice choose_pick(const RowPickArgs& args, const Traits& traits) {
  return choose_rows("row_pick", args.out, args, traits);
}
/// The kernel's arguments have a border for each bucket of several distances but the first.
void check_buckets(std::string_view op, const RelativeBuckets& relative) {
  const int64_t own = buckets_of_direction(relative), borders = own - own / 2 - 1;
  VIADUCT_CHECK(DeviceError, borders <= kMostBorders,
                "{}: {} buckets are more than its kernel takes; expected {} or fewer", op,
                relative.buckets, relative.buckets / own * 2 * (kMostBorders + 1));
}
Choice choose_bias(const ScoreBiasArgs& args, const Traits& traits) {
  check_buckets("score_bias", args.relative);
  return choose_rows("score_bias", args.matrix, args, traits);
}
Choice choose_bias_backward(const ScoreBiasBackwardArgs& args, const Traits& traits) {
  check_buckets("score_bias_backward", args.relative);
  Choice choice = choose_rows("score_bias_backward", args.gradient, args, traits);
  choice.workspace_bytes =
      parts_of(args.gradient.dim(1)) * args.d_table.elements() * dtype_bytes(DType::f64);
  choice.launches = 2;
  return choice;
}
Choice choose_loss_backward(const SoftmaxLossBackwardArgs& args, const Traits& traits) {
  return choose_rows("softmax_loss_backward", args.out, args, traits);
}

}  // namespace

void add_composed(OpTable& table) {
  table.narrow_score_factors = true;
  add_entry(table.score_product, choose_product);
  add_entry(table.score_softmax, choose_softmax);
  add_entry(table.score_softmax_backward, choose_softmax_backward);
  add_entry(table.score_dropout, choose_dropout);
  add_entry(table.score_bias, choose_bias);
  add_entry(table.score_bias_backward, choose_bias_backward);
  add_entry(table.soft_cap, choose_soft_cap);
  add_entry(table.soft_cap_backward, choose_soft_cap_backward);
  add_entry(table.row_largest, choose_largest);
  add_entry(table.row_exponential, choose_exponential);
  add_entry(table.row_sum, choose_sum);
  add_entry(table.row_divide, choose_divide);
  add_entry(table.row_pick, choose_pick);
  add_entry(table.softmax_loss_backward, choose_loss_backward);
}

}  // namespace viaduct::cuda
