#include "ops/optimizer.h"

#include "ops/checks.h"
#include "ops/optimizer_state.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_state(std::string_view op, std::string_view argument, const Tensor& tensor) {
  check_shape(op, argument, tensor, {kReproducibleSumSize});
  check_dtype(op, argument, tensor, {DType::f64});
  check_contiguous(op, argument, tensor);
}

void check_wide(std::string_view op, const Tensor& tensor) {
  check_shape(op, "wide", tensor, {kWideSumSize});
  check_dtype(op, "wide", tensor, {DType::i64});
  check_contiguous(op, "wide", tensor);
}

void check_scalars(std::string_view op, const Tensor& tensor) {
  check_shape(op, "scalars", tensor, {kStepScalars});
  check_dtype(op, "scalars", tensor, {DType::f64});
  check_contiguous(op, "scalars", tensor);
}

void check_run(const AdamWArgs& args) {
  constexpr std::string_view op = "adamw";
  const int64_t elements = args.master.defined() ? args.master.elements() : 0;
  check_state_format(op, "master", args.master, args.master_scales, args.weight, elements);
  check_dtype(op, "master", args.master, {DType::f32, DType::f64, DType::f16, DType::i16});
  const bool f64 = args.master.dtype() == DType::f64;
  const auto check = [&](std::string_view argument, const Tensor& tensor) {
    check_floating(op, argument, tensor);
    VIADUCT_CHECK(ShapeError, tensor.elements() == elements,
                  "{}: {}: expected {} elements, found {}", op, argument, elements,
                  describe(tensor));
    check_contiguous(op, argument, tensor);
  };
  check("gradient", args.gradient);
  check_dtype(op, "gradient", args.gradient, {f64 ? DType::f64 : DType::f32, DType::bf16});
  check_state_format(op, "first", args.first, args.first_scales, {}, elements);
  check_state_format(op, "second", args.second, args.second_scales, {}, elements);
  for (const Tensor* tensor : {&args.gradient, &args.first, &args.second}) {
    VIADUCT_CHECK(ShapeError, (tensor->dtype() == DType::f64) == f64,
                  "{}: expected all f64 or none, found {} and {}", op, describe(args.master),
                  describe(*tensor));
  }
  if (args.weight) check("weight", args.weight);
  check_scalars(op, args.scalars);
}

}  // namespace

void reproducible_sum(OpContext& context, const ReproducibleSumArgs& args) {
  constexpr std::string_view op = "reproducible_sum";
  check_dtype(op, "x", args.x, {DType::f32, DType::f64});
  check_contiguous(op, "x", args.x);
  if (args.weight) {
    check_shape(op, "weight", args.weight, args.x.shape());
    check_dtype(op, "weight", args.weight, {DType::f32});
    check_contiguous(op, "weight", args.weight);
  }
  check_state(op, "state", args.state);
  dispatch(context, op, context.ops.reproducible_sum, args);
}

void reproducible_sums(OpContext& context, const ReproducibleSumsArgs& args) {
  constexpr std::string_view op = "reproducible_sums";
  check_state(op, "state", args.state);
  if (args.x.empty()) return;
  for (const Tensor& x : args.x) {
    check_dtype(op, "x", x, {DType::f32, DType::f64, DType::bf16});
    check_dtype(op, "x", x, {args.x.front().dtype()});
    check_contiguous(op, "x", x);
  }
  dispatch(context, op, context.ops.reproducible_sums, args);
}

void widen_sum(OpContext& context, const WidenSumArgs& args) {
  check_state("widen_sum", "state", args.state);
  check_wide("widen_sum", args.wide);
  dispatch(context, "widen_sum", context.ops.widen_sum, args);
}

void narrow_sum(OpContext& context, const NarrowSumArgs& args) {
  check_wide("narrow_sum", args.wide);
  check_state("narrow_sum", "state", args.state);
  dispatch(context, "narrow_sum", context.ops.narrow_sum, args);
}

void sum_value(OpContext& context, const SumValueArgs& args) {
  check_state("sum_value", "state", args.state);
  check_shape("sum_value", "out", args.out, {1});
  check_dtype("sum_value", "out", args.out, {DType::f64});
  dispatch(context, "sum_value", context.ops.sum_value, args);
}

void gradient_norm(OpContext& context, const GradientNormArgs& args) {
  check_state("gradient_norm", "state", args.state);
  check_scalars("gradient_norm", args.scalars);
  dispatch(context, "gradient_norm", context.ops.gradient_norm, args);
}

void adamw(OpContext& context, const AdamWArgs& args) {
  adamw_list(context, {{args}});
}

bool same_formats(const AdamWArgs& a, const AdamWArgs& b) {
  return a.weight.defined() == b.weight.defined() &&
         (!a.weight || a.weight.dtype() == b.weight.dtype()) &&
         a.master.dtype() == b.master.dtype() && a.gradient.dtype() == b.gradient.dtype() &&
         a.first.dtype() == b.first.dtype() && a.second.dtype() == b.second.dtype();
}

void adamw_list(OpContext& context, const AdamWListArgs& args) {
  if (args.runs.empty()) return;
  const AdamWArgs& first = args.runs.front();
  for (const AdamWArgs& run : args.runs) {
    check_run(run);
    VIADUCT_CHECK(
        ShapeError, same_formats(run, first),
        "adamw: the runs of a list have one dtype of masters, of weights, of gradients and of each "
        "moment, found {} and {} beside {} and {}",
        describe(run.master), describe(run.weight), describe(first.master), describe(first.weight));
    VIADUCT_CHECK(ShapeError, run.scalars.raw() == first.scalars.raw(),
                  "adamw: the runs of a list have the same scalars");
  }
  dispatch(context, "adamw", context.ops.adamw, args);
}

}  // namespace viaduct
