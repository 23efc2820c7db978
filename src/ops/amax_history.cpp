#include "ops/amax_history.h"

#include "ops/checks.h"
#include "ops/table.h"

namespace viaduct {

void note_amax(OpContext& context, const NoteAmaxArgs& args) {
  constexpr std::string_view kOp = "note_amax";
  const auto check = [&](const char* name, const Tensor& tensor) {
    check_shape(kOp, name, tensor, {args.amax.elements()});
    check_dtype(kOp, name, tensor, {DType::f32});
    check_contiguous(kOp, name, tensor);
  };
  check("amax", args.amax);
  check("noted", args.noted);
  check("chosen", args.chosen);
  check("out", args.out);
  dispatch(context, kOp, context.ops.note_amax, args);
}

void choose_amax(OpContext& context, const ChooseAmaxArgs& args) {
  constexpr std::string_view kOp = "choose_amax";
  check_rank(kOp, "history", args.history, 2);
  const int64_t tensors = args.history.dim(0);
  VIADUCT_CHECK(ShapeError, args.history.dim(1) > 0, "{}: expected a history of steps, got {}", kOp,
                describe(args.history));
  check_shape(kOp, "noted", args.noted, {tensors});
  check_shape(kOp, "chosen", args.chosen, {tensors});
  const auto check = [&](const char* name, const Tensor& tensor) {
    check_dtype(kOp, name, tensor, {DType::f32});
    check_contiguous(kOp, name, tensor);
  };
  check("noted", args.noted);
  check("history", args.history);
  check("chosen", args.chosen);
  dispatch(context, kOp, context.ops.choose_amax, args);
}

}  // namespace viaduct
