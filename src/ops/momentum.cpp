#include "ops/momentum.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {

void momentum_list(OpContext& context, const MomentumListArgs& args) {
  if (args.runs.empty()) return;
  const MomentumArgs& first = args.runs.front();
  const std::string_view op = first.rule == MomentumRule::sgd ? "sgd" : "lion";
  for (const MomentumArgs& run : args.runs) {
    check_dtype(op, "master", run.master, {DType::f32, DType::f64});
    check_contiguous(op, "master", run.master);
    for (const Tensor& tensor : {run.gradient, run.state}) {
      check_dtype(op, "gradient and state", tensor, {run.master.dtype()});
      check_shape(op, "gradient and state", tensor, run.master.shape());
      check_contiguous(op, "gradient and state", tensor);
    }
    if (run.weight) {
      check_floating(op, "weight", run.weight);
      check_shape(op, "weight", run.weight, run.master.shape());
      check_contiguous(op, "weight", run.weight);
    }
    check_shape(op, "scalars", run.scalars, {kStepScalars});
    check_dtype(op, "scalars", run.scalars, {DType::f64});
    const bool alike = run.rule == first.rule && run.master.dtype() == first.master.dtype() &&
                       run.weight.defined() == first.weight.defined() &&
                       (!run.weight || run.weight.dtype() == first.weight.dtype()) &&
                       run.scalars.raw() == first.scalars.raw();
    VIADUCT_CHECK(
        ShapeError, alike,
        "{}: the runs of a list have one rule, the same scalars, one dtype of masters and "
        "one of weights, found {} and {} beside {} and {}",
        op, describe(run.master), describe(run.weight), describe(first.master),
        describe(first.weight));
  }
  dispatch(context, op, context.ops.momentum, args);
}

}  // namespace viaduct
