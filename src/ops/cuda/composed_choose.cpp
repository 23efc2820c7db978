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
Choice choose_score_rows(const ScoreRowsArgs& args, const Traits& traits) {
  if (args.step == ScoreStep::dropout)
    return choose_kernel("score_rows", "rows", args.x.dtype(), args, traits);
  return choose_rows("score_rows", args.x, args, traits);
}

template <class Args>
Choice choose_softmax(const Args& args, const Traits& traits) {
  return choose_rows("softmax", args.x, args, traits);
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
}  // namespace

void add_composed(OpTable& table) {
  table.narrow_score_factors = true;
  add_entry(table.score_product, choose_product);
  add_entry(table.score_rows, choose_score_rows);
  add_entry(table.score_bias, choose_bias);
  add_entry(table.score_bias_backward, choose_bias_backward);
  add_entry(table.reduce_rows, choose_softmax<ReduceRowsArgs>);
  add_entry(table.map_rows, choose_softmax<MapRowsArgs>);
}

}  // namespace viaduct::cuda
