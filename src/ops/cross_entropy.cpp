#include "ops/cross_entropy.h"

#include <utility>

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// Checks common to both halves: logits, targets and the vectors with them.
void check_logits(std::string_view op, const Tensor& logits, const Tensor& targets,
                  int64_t first_column, int64_t columns, double softcap) {
  check_rank(op, "logits", logits, 2);
  check_floating(op, "logits", logits);
  check_dense_rows(op, "logits", logits);
  check_shape(op, "targets", targets, {logits.dim(0)});
  check_dtype(op, "targets", targets, {DType::i32});
  check_contiguous(op, "targets", targets);
  VIADUCT_CHECK(ShapeError, columns >= 0 && columns <= logits.dim(1),
                "{}: expected columns in [0, {}], got {}", op, logits.dim(1), columns);
  VIADUCT_CHECK(ShapeError, first_column >= 0, "{}: expected first_column ≥ 0, got {}", op,
                first_column);
  VIADUCT_CHECK(ShapeError, softcap >= 0, "{}: expected softcap ≥ 0, got {}", op, softcap);
}

void check_vector(std::string_view op, std::string_view argument, const Tensor& tensor,
                  const Tensor& logits) {
  check_shape(op, argument, tensor, {logits.dim(0)});
  check_dtype(op, argument, tensor, {DType::f64});
  check_contiguous(op, argument, tensor);
}

/// Checks for three f64 vectors of one length.
void check_lse(std::string_view op,
               std::initializer_list<std::pair<std::string_view, Tensor>> all) {
  const Tensor& first = all.begin()->second;
  for (const auto& [argument, tensor] : all) {
    check_rank(op, argument, tensor, 1);
    check_dtype(op, argument, tensor, {DType::f64});
    check_shape(op, argument, tensor, first.shape());
    check_contiguous(op, argument, tensor);
  }
}

}  // namespace

void cross_entropy_forward(OpContext& context, const CrossEntropyForwardArgs& args) {
  constexpr std::string_view kOp = "cross_entropy_forward";
  check_logits(kOp, args.logits, args.targets, args.first_column, args.columns, args.softcap);
  check_vector(kOp, "lse", args.lse, args.logits);
  check_vector(kOp, "target_logit", args.target_logit, args.logits);
  dispatch(context, kOp, context.ops.cross_entropy_forward, args);
}

void cross_entropy_backward(OpContext& context, const CrossEntropyBackwardArgs& args) {
  constexpr std::string_view kOp = "cross_entropy_backward";
  check_logits(kOp, args.logits, args.targets, args.first_column, args.columns, args.softcap);
  check_vector(kOp, "lse", args.lse, args.logits);
  check_shape(kOp, "weight", args.weight, {args.logits.dim(0)});
  check_dtype(kOp, "weight", args.weight, {DType::f32});
  check_contiguous(kOp, "weight", args.weight);
  check_shape(kOp, "factor", args.factor, {1});
  check_dtype(kOp, "factor", args.factor, {DType::f64});
  check_shape(kOp, "out", args.out, args.logits.shape());
  check_dense_rows(kOp, "out", args.out);
  if (args.logits.dtype() == DType::f64) {
    check_dtype(kOp, "out", args.out, {DType::f64});
  } else {
    check_dtype(kOp, "out", args.out, {DType::f32, DType::bf16, DType::f16});
  }
  dispatch(context, kOp, context.ops.cross_entropy_backward, args);
}

void lse_share(OpContext& context, const LseShareArgs& args) {
  constexpr std::string_view kOp = "lse_share";
  check_lse(kOp, {{"lse", args.lse}, {"largest", args.largest}, {"share", args.share}});
  dispatch(context, kOp, context.ops.lse_share, args);
}

void lse_join(OpContext& context, const LseJoinArgs& args) {
  constexpr std::string_view kOp = "lse_join";
  check_lse(kOp, {{"shares", args.shares}, {"largest", args.largest}, {"lse", args.lse}});
  dispatch(context, kOp, context.ops.lse_join, args);
}

Cost cost_of(const CrossEntropyForwardArgs& args) {
  return make_cost(args.logits.dtype(),
                   kSoftmaxFlops * static_cast<double>(args.logits.dim(0) * args.columns),
                   {&args.logits, &args.targets}, {&args.lse, &args.target_logit});
}

Cost cost_of(const CrossEntropyBackwardArgs& args) {
  return make_cost(args.logits.dtype(),
                   kSoftmaxFlops * static_cast<double>(args.logits.dim(0) * args.columns),
                   {&args.logits, &args.targets, &args.lse, &args.weight}, {&args.out});
}

Cost cost_of(const LseShareArgs& args) {
  return make_cost(args.lse.dtype(), kSoftmaxFlops * count(args.lse), {&args.lse, &args.lse},
                   {&args.lse});
}

Cost cost_of(const LseJoinArgs& args) {
  return make_cost(args.lse.dtype(), kSoftmaxFlops * count(args.lse), {&args.lse, &args.lse},
                   {&args.lse});
}

}  // namespace viaduct
