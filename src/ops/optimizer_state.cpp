#include "ops/optimizer_state.h"

#include "ops/checks.h"
#include "ops/table.h"
#include "tensor/state_formats.h"

namespace viaduct {

void check_state_format(std::string_view op, std::string_view argument, const Tensor& tensor,
                        const Tensor& scales, const Tensor& weights, int64_t elements) {
  check_dtype(op, argument, tensor,
              {DType::f32, DType::f64, DType::bf16, DType::f16, DType::e4m3, DType::i16});
  VIADUCT_CHECK(ShapeError, tensor.elements() == elements, "{}: {}: expected {} elements, found {}",
                op, argument, elements, describe(tensor));
  check_contiguous(op, argument, tensor);
  const bool scaled = has_state_scales(tensor.dtype()), remainders = tensor.dtype() == DType::i16;
  VIADUCT_CHECK(ShapeError, scaled == scales.defined(), "{}: {}: {} has {} scales, found {}", op,
                argument, describe(tensor), scaled ? "a group's" : "no", describe(scales));
  if (scaled) {
    check_shape(op, "scales", scales, {state_groups(elements)});
    check_dtype(op, "scales", scales, {DType::f32});
    check_contiguous(op, "scales", scales);
  }
  if (!remainders) return;
  VIADUCT_CHECK(ShapeError, weights.defined() && weights.elements() == elements,
                "{}: {}: remainders need {} weights, found {}", op, argument, elements,
                describe(weights));
  check_dtype(op, "weights", weights, {DType::bf16});
  check_contiguous(op, "weights", weights);
}

void expand_state(OpContext& context, const ExpandStateArgs& args) {
  constexpr std::string_view op = "expand_state";
  check_dtype(op, "out", args.out, {DType::f32});
  check_contiguous(op, "out", args.out);
  check_state_format(op, "values", args.values, args.scales, args.weights, args.out.elements());
  dispatch(context, op, context.ops.expand_state, args);
}

void store_state(OpContext& context, const StoreStateArgs& args) {
  constexpr std::string_view op = "store_state";
  if (args.in) {
    check_dtype(op, "in", args.in, {DType::f32});
    check_contiguous(op, "in", args.in);
  }
  check_state_format(op, "values", args.values, args.scales, args.weights,
                     args.in ? args.in.elements() : args.values.elements());
  dispatch(context, op, context.ops.store_state, args);
}

}  // namespace viaduct
