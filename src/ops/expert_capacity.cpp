#include "ops/expert_capacity.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {

void limit_experts(OpContext& context, const LimitExpertsArgs& args) {
  constexpr std::string_view kOp = "limit_experts";
  check_rank(kOp, "choice", args.choice, 2);
  check_dtype(kOp, "choice", args.choice, {DType::i32});
  check_contiguous(kOp, "choice", args.choice);
  check_shape(kOp, "probabilities", args.probabilities, args.choice.shape());
  check_dtype(kOp, "probabilities", args.probabilities, {DType::f32, DType::f64});
  check_contiguous(kOp, "probabilities", args.probabilities);
  VIADUCT_CHECK(ShapeError, args.experts >= 1 && args.capacity >= 1,
                "{}: {} experts of {} tokens each, expected at least 1 of both", kOp, args.experts,
                args.capacity);
  VIADUCT_CHECK(ShapeError, args.experts_together >= 1 && args.experts % args.experts_together == 0,
                "{}: runs of {} experts, expected a divisor of their number {}", kOp,
                args.experts_together, args.experts);
  dispatch(context, kOp, context.ops.limit_experts, args);
}

}  // namespace viaduct
