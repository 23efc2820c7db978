#include "ops/optimizer.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_state(std::string_view op, std::string_view argument, const Tensor& tensor) {
  check_shape(op, argument, tensor, {kReproducibleSumSize});
  check_dtype(op, argument, tensor, {DType::f64});
  check_contiguous(op, argument, tensor);
}

void check_scalars(std::string_view op, const Tensor& tensor) {
  check_shape(op, "scalars", tensor, {kStepScalars});
  check_dtype(op, "scalars", tensor, {DType::f64});
  check_contiguous(op, "scalars", tensor);
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

void merge_sums(OpContext& context, const MergeSumsArgs& args) {
  check_state("merge_sums", "state", args.state);
  check_state("merge_sums", "other", args.other);
  dispatch(context, "merge_sums", context.ops.merge_sums, args);
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
  constexpr std::string_view op = "adamw";
  check_dtype(op, "master", args.master, {DType::f32, DType::f64});
  check_contiguous(op, "master", args.master);
  const auto check_run = [&](std::string_view argument, const Tensor& tensor) {
    check_floating(op, argument, tensor);
    VIADUCT_CHECK(ShapeError, tensor.elements() == args.master.elements(),
                  "{}: {}: expected {} elements, found {}", op, argument, args.master.elements(),
                  describe(tensor));
    check_contiguous(op, argument, tensor);
  };
  for (const auto& [name, tensor] :
       {std::pair<std::string_view, const Tensor*>{"gradient", &args.gradient},
        {"first", &args.first},
        {"second", &args.second}}) {
    check_run(name, *tensor);
    check_dtype(op, name, *tensor, {args.master.dtype()});
  }
  if (args.weight) check_run("weight", args.weight);
  check_scalars(op, args.scalars);
  dispatch(context, op, context.ops.adamw, args);
}

}  // namespace viaduct
