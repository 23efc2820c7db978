#include "ops/load_quantile.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

/// `histogram` is [E, B] with k < E experts, `bias` [E].
void check(std::string_view op, const Tensor& histogram, const Tensor& bias, int64_t topk) {
  check_rank(op, "histogram", histogram, 2);
  check_dtype(op, "histogram", histogram, {DType::i64});
  check_contiguous(op, "histogram", histogram);
  check_shape(op, "bias", bias, {histogram.dim(0)});
  check_dtype(op, "bias", bias, {DType::f32, DType::f64});
  check_contiguous(op, "bias", bias);
  VIADUCT_CHECK(ShapeError, topk >= 1 && topk < histogram.dim(0),
                "{}: topk: expected 1 to {} of {} experts, whose next best score is the limit, "
                "found {}",
                op, histogram.dim(0) - 1, histogram.dim(0), topk);
  VIADUCT_CHECK(ShapeError, histogram.dim(1) >= 1, "{}: histogram: expected bins, found {}", op,
                describe(histogram));
}

}  // namespace

void count_margins(OpContext& context, const CountMarginsArgs& args) {
  constexpr std::string_view kOp = "count_margins";
  check(kOp, args.histogram, args.bias, args.topk);
  check_rank(kOp, "logits", args.logits, 2);
  check_shape(kOp, "logits", args.logits, {args.logits.dim(0), args.histogram.dim(0)});
  check_dtype(kOp, "logits", args.logits, {args.bias.dtype()});
  check_contiguous(kOp, "logits", args.logits);
  if (args.token_index) {
    check_shape(kOp, "token_index", args.token_index, {args.logits.dim(0)});
    check_dtype(kOp, "token_index", args.token_index, {DType::i64});
    check_contiguous(kOp, "token_index", args.token_index);
  }
  dispatch(context, kOp, context.ops.count_margins, args);
}

void quantile_bias(OpContext& context, const QuantileBiasArgs& args) {
  constexpr std::string_view kOp = "quantile_bias";
  check(kOp, args.histogram, args.bias, args.topk);
  check_shape(kOp, "out", args.out, args.bias.shape());
  check_dtype(kOp, "out", args.out, {args.bias.dtype()});
  check_contiguous(kOp, "out", args.out);
  dispatch(context, kOp, context.ops.quantile_bias, args);
}

}  // namespace viaduct
