#pragma once
// How the operands of a linear layer's products are quantized: the forms that products read, the
// largest magnitudes that scales are made for, and the rounding of gradients.

#include <memory>

#include "nn/context.h"
#include "nn/delayed_scales.h"
#include "nn/saved.h"
#include "ops/gemm.h"
#include "ops/produced_forms.h"

namespace viaduct {

class LinearQuantization {
 public:
  /// `columns`: the layer is column-parallel, so that x is the stream, else dy.
  LinearQuantization(std::shared_ptr<const Parameter> weight, bool columns)
      : weight_(std::move(weight)), columns_(columns) {}

  /// How the operands of its products are quantized.
  Quantization how(const RankContext& context) const;
  /// The form in which the product of a forward or data gradient reads x or dy of `rows`.
  OperandForm read_form(const RankContext& context, GemmForm form, int64_t rows) const;
  /// For the producer of x, of `rows` as held by this rank: what the forward would make of x
  /// itself. `of_product`: an activation in the epilogue of a product.
  ProducedForms allocate_input_forms(const RankContext& context, int64_t rows,
                                     bool of_product) const;
  /// The largest magnitude that the scale of x or dy is made for; undefined without such a scale.
  /// `found`: that of the rank's own part, if it is known.
  Tensor amax(RankContext& context, LayerOperand operand, const Tensor& matrix,
              const SavedStore& saved, const Tensor& found = {}) const;
  /// How dy of all tokens is rounded; undefined where the recipe rounds to nearest. ShapeError
  /// without the tokens' indices.
  StochasticRounding rounding(const RankContext& context) const;

 private:
  std::shared_ptr<const Parameter> weight_;
  bool columns_;
};

}  // namespace viaduct
