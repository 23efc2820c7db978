#include "ops/expert_bias.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// `rows` is [A, N], `biases` [E, N], `offsets` [E + 1].
void check(std::string_view op, std::string_view rows_name, const Tensor& rows,
           std::string_view bias_name, const Tensor& biases, const Tensor& offsets) {
  check_rank(op, rows_name, rows, 2);
  check_floating(op, rows_name, rows);
  check_dense_rows(op, rows_name, rows);
  check_rank(op, bias_name, biases, 2);
  check_shape(op, bias_name, biases, {biases.dim(0), rows.dim(1)});
  check_floating(op, bias_name, biases);
  check_contiguous(op, bias_name, biases);
  VIADUCT_CHECK(ShapeError, (rows.dtype() == DType::f64) == (biases.dtype() == DType::f64),
                "{}: {}: expected f64 only with f64, found {} for {}", op, bias_name,
                describe(biases), describe(rows));
  check_shape(op, "offsets", offsets, {biases.dim(0) + 1});
  check_dtype(op, "offsets", offsets, {DType::i32});
  check_contiguous(op, "offsets", offsets);
}

}  // namespace

void expert_bias(OpContext& context, const ExpertBiasArgs& args) {
  constexpr std::string_view op = "expert_bias";
  check(op, "x", args.x, "bias", args.bias, args.offsets);
  dispatch(context, op, context.ops.expert_bias, args);
}

void expert_bias_backward(OpContext& context, const ExpertBiasBackwardArgs& args) {
  constexpr std::string_view op = "expert_bias_backward";
  check(op, "dy", args.dy, "d_bias", args.d_bias, args.offsets);
  check_dtype(op, "d_bias", args.d_bias, {accumulator_dtype(args.dy.dtype())});
  dispatch(context, op, context.ops.expert_bias_backward, args);
}

Cost cost_of(const ExpertBiasArgs& args) {
  return make_cost(args.x.dtype(), count(args.x), {&args.x, &args.bias, &args.offsets}, {&args.x});
}

Cost cost_of(const ExpertBiasBackwardArgs& args) {
  return make_cost(args.dy.dtype(), count(args.dy), {&args.dy, &args.offsets, &args.d_bias},
                   {&args.d_bias});
}

}  // namespace viaduct
