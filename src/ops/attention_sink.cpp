#include "ops/attention_sink.h"

#include "ops/checks.h"
#include "ops/make_cost.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_statistic(std::string_view op, std::string_view argument, const Tensor& tensor,
                     const Shape& shape, DType dtype) {
  check_shape(op, argument, tensor, shape);
  check_dtype(op, argument, tensor, {dtype});
  check_contiguous(op, argument, tensor);
}

void check_sink(std::string_view op, const Tensor& sink, int64_t heads, DType statistic) {
  check_shape(op, "sink", sink, {heads});
  check_floating(op, "sink", sink);
  check_contiguous(op, "sink", sink);
  VIADUCT_CHECK(ShapeError, accumulator_dtype(sink.dtype()) == statistic,
                "{}: sink: expected a dtype that is summed in {}, found {}", op,
                dtype_name(statistic), describe(sink));
}

}  // namespace

void attention_sink(OpContext& context, const AttentionSinkArgs& args) {
  constexpr std::string_view op = "attention_sink";
  check_rank(op, "out", args.out, 3);
  check_floating(op, "out", args.out);
  check_dense_rows(op, "out", args.out);
  const DType statistic = accumulator_dtype(args.out.dtype());
  check_statistic(op, "lse", args.lse, {args.out.dim(1), args.out.dim(0)}, statistic);
  check_sink(op, args.sink, args.out.dim(1), statistic);
  dispatch(context, op, context.ops.attention_sink, args);
}

void attention_sink_backward(OpContext& context, const AttentionSinkBackwardArgs& args) {
  constexpr std::string_view op = "attention_sink_backward";
  check_rank(op, "lse", args.lse, 2);
  check_floating(op, "lse", args.lse);
  const DType statistic = accumulator_dtype(args.lse.dtype());
  check_statistic(op, "lse", args.lse, args.lse.shape(), statistic);
  check_statistic(op, "delta", args.delta, args.lse.shape(), statistic);
  check_statistic(op, "d_sink", args.d_sink, {args.lse.dim(0)}, statistic);
  check_sink(op, args.sink, args.lse.dim(0), statistic);
  dispatch(context, op, context.ops.attention_sink_backward, args);
}

Cost cost_of(const AttentionSinkArgs& args) {
  Cost cost = make_cost(args.out.dtype(), count(args.out) + 2 * kSoftmaxFlops * count(args.lse),
                        {&args.sink}, {&args.out, &args.lse});
  cost.bytes_read += cost.bytes_written;
  return cost;
}

Cost cost_of(const AttentionSinkBackwardArgs& args) {
  return make_cost(args.lse.dtype(), kSoftmaxFlops * count(args.lse),
                   {&args.lse, &args.delta, &args.sink, &args.d_sink}, {&args.d_sink});
}

}  // namespace viaduct
