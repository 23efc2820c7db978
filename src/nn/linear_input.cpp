// The input of a linear layer: what its producer makes of it, what the forward reads, and what is
// kept for the weight gradient.

#include "base/error.h"
#include "nn/linear.h"
#include "nn/product.h"
#include "nn/tensor_exchange.h"

namespace viaduct {

Operand Linear::keep_input(RankContext& context, const LinearInput& input, const Tensor& amax,
                           SavedStore& saved) const {
  const Operand& x = input.x;
  if (x.form().plain())
    saved.once([&] { log_operand(context, GemmForm::forward, x.tensor(), amax); });
  if (!has_weight_half()) return input.forms.operand ? input.forms.operand : x;
  if (!x.form().plain()) {
    VIADUCT_CHECK(ShapeError, !columns() && x.form() == kept_forms(context).b,
                  "{}: x comes as {}, but its weight gradient reads {}", weight_->path,
                  describe(x.form()), describe(kept_forms(context).b));
    keep_operand(saved, this, "x", x);
    return x;
  }
  const Operand kept =
      keep_operand(context, saved, this, "x", x.tensor(), kept_forms(context).b, amax);
  if (keeps_amax(context)) saved.keep(this, "x amax", amax);
  if (input.forms.operand) return input.forms.operand;
  return kept_or_matrix(context, GemmForm::forward, operands_.how(context), kept, x.tensor());
}

ProducedForms Linear::allocate_input_forms(const RankContext& context, int64_t rows,
                                           bool of_product) const {
  return operands_.allocate_input_forms(context, rows, of_product);
}

Tensor Linear::input_amax(RankContext& context, const LinearInput& input,
                          const SavedStore& saved) const {
  if (!input.x.form().plain()) return {};
  return operands_.amax(context, LayerOperand::input, input.x.tensor(), saved, input.forms.amax);
}

void Linear::keep(RankContext& context, const LinearInput& input, SavedStore& saved) const {
  if (terms_.have_magnitudes()) {  // their gradients need the product
    forward(context, input, saved, MemoryTag::activations);
    return;
  }
  keep_input(context, input, input_amax(context, input, saved), saved);
  if (!terms_.any()) return;
  const bool gathers = columns() && stream_is_cut(context);
  const Tensor& x = input.x.tensor();
  terms_.reduce(context, gathers ? gather_stream(context, x) : x, saved);
}

}  // namespace viaduct
