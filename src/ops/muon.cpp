#include "ops/muon.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {
namespace {

void check_run(std::string_view op, std::string_view argument, const Tensor& tensor,
               const Tensor& like) {
  check_dtype(op, argument, tensor, {DType::f32});
  VIADUCT_CHECK(ShapeError, tensor.elements() == like.elements(),
                "{}: {}: expected {} elements, found {}", op, argument, like.elements(),
                describe(tensor));
  check_contiguous(op, argument, tensor);
}

void check_scalars(std::string_view op, const Tensor& scalars) {
  check_shape(op, "scalars", scalars, {kStepScalars});
  check_dtype(op, "scalars", scalars, {DType::f64});
}

}  // namespace

void muon_momentum(OpContext& context, const MuonMomentumArgs& args) {
  constexpr std::string_view op = "muon_momentum";
  check_dtype(op, "state", args.state, {DType::f32});
  check_run(op, "state", args.state, args.state);
  check_run(op, "gradient", args.gradient, args.state);
  check_run(op, "out", args.out, args.state);
  check_scalars(op, args.scalars);
  dispatch(context, op, context.ops.muon_momentum, args);
}

void normalize(OpContext& context, const NormalizeArgs& args) {
  constexpr std::string_view op = "normalize";
  check_dtype(op, "x", args.x, {DType::f32});
  check_contiguous(op, "x", args.x);
  check_shape(op, "sum", args.sum, {1});
  check_dtype(op, "sum", args.sum, {DType::f64});
  dispatch(context, op, context.ops.normalize, args);
}

void muon_update(OpContext& context, const MuonUpdateArgs& args) {
  constexpr std::string_view op = "muon_update";
  check_dtype(op, "master", args.master, {DType::f32});
  check_run(op, "master", args.master, args.master);
  check_run(op, "update", args.update, args.master);
  if (args.weight) {
    check_dtype(op, "weight", args.weight, {DType::f32, DType::bf16, DType::f16});
    check_shape(op, "weight", args.weight, args.master.shape());
    check_contiguous(op, "weight", args.weight);
  }
  check_scalars(op, args.scalars);
  dispatch(context, op, context.ops.muon_update, args);
}

}  // namespace viaduct
