#include "ops/routing.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_rule(std::string_view op, const RoutingRule& rule, int64_t experts) {
  VIADUCT_CHECK(ShapeError,
                rule.topk >= 1 && rule.topk <= experts && rule.topk <= kMostChosenExperts,
                "{}: {} of {} experts of a token, expected 1 to {}", op, rule.topk, experts,
                std::min(experts, kMostChosenExperts));
  VIADUCT_CHECK(ShapeError,
                rule.groups == 0 || (experts % rule.groups == 0 && rule.group_topk >= 1 &&
                                     rule.group_topk <= rule.groups &&
                                     rule.group_topk * (experts / rule.groups) >= rule.topk),
                "{}: {} of {} groups of {} experts cannot give {} experts", op, rule.group_topk,
                rule.groups, experts, rule.topk);
  VIADUCT_CHECK(ShapeError, rule.groups == 0 || !rule.choose_logits,
                "{}: a choice by logits has no scores of groups", op);
  VIADUCT_CHECK(ShapeError,
                !rule.choose_probabilities || (rule.score == ScoreFunction::softmax &&
                                               rule.groups == 0 && !rule.choose_logits),
                "{}: a choice by probabilities is one of a softmax, without groups", op);
  VIADUCT_CHECK(ShapeError,
                rule.margin == 0 || (rule.score == ScoreFunction::softmax && !rule.pre_softmax),
                "{}: a margin of {} is one of a softmax, without pre_softmax", op, rule.margin);
  VIADUCT_CHECK(
      ShapeError,
      rule.groups == 0 ||
          (rule.best_of_group() <= kMostChosenExperts && rule.group_best <= experts / rule.groups),
      "{}: the best {} of a group of {} experts, expected at most that many and at most {}", op,
      rule.best_of_group(), experts / rule.groups, kMostChosenExperts);
}

void check_logits(std::string_view op, const Tensor& logits) {
  check_rank(op, "logits", logits, 2);
  check_dtype(op, "logits", logits, {DType::f32, DType::f64});
  check_contiguous(op, "logits", logits);
}

/// A tensor of one entry for each chosen expert.
void check_chosen(std::string_view op, std::string_view argument, const Tensor& tensor, DType dtype,
                  const Tensor& logits, const RoutingRule& rule) {
  check_shape(op, argument, tensor, {logits.dim(0), rule.topk});
  check_dtype(op, argument, tensor, {dtype});
  check_contiguous(op, argument, tensor);
}

/// Counts [E] over all tokens, or [D, E] over those of each of D documents.
void check_counts(std::string_view op, const Tensor& counts, int64_t experts,
                  const Tensor& documents) {
  if (documents) {
    check_rank(op, "documents", documents, 1);
    check_dtype(op, "documents", documents, {DType::i32});
    check_contiguous(op, "documents", documents);
    check_shape(op, "counts", counts, {documents.dim(0) - 1, experts});
  } else {
    check_shape(op, "counts", counts, {experts});
  }
  check_dtype(op, "counts", counts, {DType::i64});
  check_contiguous(op, "counts", counts);
}

void check_token_index(std::string_view op, const Tensor& token_index, int64_t tokens) {
  if (!token_index) return;
  check_shape(op, "token_index", token_index, {tokens});
  check_dtype(op, "token_index", token_index, {DType::i64});
  check_contiguous(op, "token_index", token_index);
}

void check_balance(std::string_view op, const Tensor& counts, int64_t experts, int64_t tokens,
                   const Tensor& documents) {
  check_counts(op, counts, experts, documents);
  VIADUCT_CHECK(ShapeError, documents || tokens >= 0, "{}: counts over {} tokens", op, tokens);
}

}  // namespace

void route(OpContext& context, const RouteArgs& args) {
  constexpr std::string_view kOp = "route";
  check_logits(kOp, args.logits);
  check_rule(kOp, args.rule, args.logits.dim(1));
  if (args.bias) {
    check_shape(kOp, "bias", args.bias, {args.logits.dim(1)});
    check_dtype(kOp, "bias", args.bias, {args.logits.dtype()});
    check_contiguous(kOp, "bias", args.bias);
  }
  check_chosen(kOp, "probabilities", args.probabilities, args.logits.dtype(), args.logits,
               args.rule);
  check_chosen(kOp, "choice", args.choice, DType::i32, args.logits, args.rule);
  dispatch(context, kOp, context.ops.route, args);
}

void route_backward(OpContext& context, const RouteBackwardArgs& args) {
  constexpr std::string_view kOp = "route_backward";
  check_logits(kOp, args.logits);
  const int64_t experts = args.logits.dim(1);
  check_rule(kOp, args.rule, experts);
  check_chosen(kOp, "d_probabilities", args.d_probabilities, args.logits.dtype(), args.logits,
               args.rule);
  check_chosen(kOp, "choice", args.choice, DType::i32, args.logits, args.rule);
  check_shape(kOp, "d_logits", args.d_logits, args.logits.shape());
  check_dtype(kOp, "d_logits", args.d_logits, {args.logits.dtype()});
  check_contiguous(kOp, "d_logits", args.d_logits);
  const RouterLossTerms& losses = args.losses;
  if (losses.balance != 0)
    check_balance(kOp, losses.counts, experts, losses.tokens, losses.documents);
  check_token_index(kOp, losses.token_index, args.logits.dim(0));
  if (losses.balance != 0 || losses.z != 0) {
    check_shape(kOp, "loss_scale", losses.loss_scale, {1});
    check_dtype(kOp, "loss_scale", losses.loss_scale, {DType::f64});
  }
  dispatch(context, kOp, context.ops.route_backward, args);
}

void router_loss(OpContext& context, const RouterLossArgs& args) {
  constexpr std::string_view kOp = "router_loss";
  check_logits(kOp, args.logits);
  check_rule(kOp, args.rule, args.logits.dim(1));
  if (args.counts) check_balance(kOp, args.counts, args.logits.dim(1), args.tokens, args.documents);
  check_token_index(kOp, args.token_index, args.logits.dim(0));
  check_shape(kOp, "out", args.out, {3});
  check_dtype(kOp, "out", args.out, {DType::f64});
  check_contiguous(kOp, "out", args.out);
  dispatch(context, kOp, context.ops.router_loss, args);
}

void count_choices(OpContext& context, const CountChoicesArgs& args) {
  constexpr std::string_view kOp = "count_choices";
  check_rank(kOp, "choice", args.choice, 2);
  check_dtype(kOp, "choice", args.choice, {DType::i32});
  check_contiguous(kOp, "choice", args.choice);
  check_rank(kOp, "counts", args.counts, args.documents ? 2 : 1);
  check_counts(kOp, args.counts, args.counts.dim(args.documents ? 1 : 0), args.documents);
  check_token_index(kOp, args.token_index, args.choice.dim(0));
  dispatch(context, kOp, context.ops.count_choices, args);
}

}  // namespace viaduct
