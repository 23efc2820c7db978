#include "ops/sinkhorn.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {

void sinkhorn_bias(OpContext& context, const SinkhornArgs& args) {
  constexpr std::string_view kOp = "sinkhorn_bias";
  check_rank(kOp, "logits", args.logits, 2);
  check_dtype(kOp, "logits", args.logits, {DType::f32, DType::f64});
  check_contiguous(kOp, "logits", args.logits);
  check_shape(kOp, "bias", args.bias, {args.logits.dim(1)});
  check_dtype(kOp, "bias", args.bias, {args.logits.dtype()});
  check_contiguous(kOp, "bias", args.bias);
  dispatch(context, kOp, context.ops.sinkhorn_bias, args);
}

}  // namespace viaduct
