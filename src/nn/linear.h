#pragma once
// A linear layer y = x · Wᵀ + b with W [out, in], cut over the tensor ranks by its output features
// (column-parallel) or its input features (row-parallel): the GEMMs of a segment with the exchanges
// of the tensor ranks that they need (Shoeybi et al. 2019; sequence parallel: Korthikanti et al.
// 2022), overlapped as the context's table says. Keeps the tensors for its backward.

#include <memory>
#include <optional>
#include <utility>

#include "nn/context.h"
#include "nn/linear_overlap.h"
#include "nn/linear_quantization.h"
#include "nn/low_rank.h"
#include "nn/saved.h"
#include "ops/gemm.h"
#include "ops/produced_forms.h"

namespace viaduct {

struct StreamProduct;

/// What a linear layer reads: a matrix, or of a row-parallel layer an operand in the form that its
/// products read; and what the producer of a matrix has made of it besides
/// (`Linear::allocate_input_forms`).
struct LinearInput {
  LinearInput(Operand input) : x(std::move(input)) {}        // NOLINT: implicit, as Operand's
  LinearInput(const Tensor& input, ProducedForms made = {})  // NOLINT
      : x(input), forms(std::move(made)) {}
  Operand x;
  ProducedForms forms = {};
};

class Linear {
 public:
  /// `bias` may be null; a row-parallel layer adds it once. `terms` are added to the weight.
  Linear(LinearRole role, std::shared_ptr<const Parameter> weight,
         std::shared_ptr<const Parameter> bias, LowRankTerms terms = {});

  /// y [T, out] = x [T, in] · Wᵀ + b; out and in as held by this rank. The side that is the stream
  /// has this rank's rows of it. `epilogue`: only if `takes_epilogue`; its tensors have y's rows.
  /// `format` of y: if absent, the activation format, which sums over tensor ranks always have.
  Tensor forward(RankContext& context, LinearInput input, SavedStore& saved,
                 MemoryTag tag = MemoryTag::saved, const GemmEpilogue& epilogue = {},
                 std::optional<DType> format = {}) const;
  /// The part of the forward that the backward needs: keeps x, and computes no y.
  void keep(RankContext& context, const LinearInput& input, SavedStore& saved) const;
  /// For the producer of x, of `rows` as held by this rank: what the forward would make of x
  /// itself, as far as the backend's producers do. `of_product`: an activation in the epilogue of a
  /// product.
  ProducedForms allocate_input_forms(const RankContext& context, int64_t rows,
                                     bool of_product = false) const;
  /// dx [T, in] = dy [T, out] · W; the gradient of the bias accumulates (+=). With an `epilogue`
  /// (row-parallel layers) the gradient of its `raised`, in place.
  Tensor backward_input(RankContext& context, const Tensor& dy, SavedStore& saved,
                        const GemmEpilogue& epilogue = {}) const;
  /// The same where nothing needs dx: only what `backward_weight` reads of it.
  void keep_output_gradient(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  /// dW [out, in] (= or +=) dyᵀ · x. Nothing is left to do if it ran during the exchange of the
  /// input gradient.
  void backward_weight(RankContext& context, SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

  /// Whether the forward's GEMM may have an epilogue: its result is the whole sum, with the bias.
  bool takes_epilogue(const RankContext& context) const;
  /// Whether the GEMM of the input gradient is all of it, so that it may have an epilogue.
  bool gradient_takes_epilogue(const RankContext& context) const {
    return !terms_.any() || adds_terms_in_gradient(context);
  }
  /// Whether the forward is one product of all rows, so that its epilogue sees the whole result.
  bool multiplies_all_rows(const RankContext& context) const {
    return overlap_.multiplies_all_rows(context);
  }
  /// Whether the backward has a second half: the weight is trained, or has terms. Else no x is
  /// kept.
  bool has_weight_half() const { return weight_->trained || terms_.any(); }
  const std::shared_ptr<const Parameter>& weight() const { return weight_; }
  /// Output features held by this rank.
  int64_t outputs() const { return weight_->shape[0]; }

 private:
  /// Whether the GEMM of the forward adds the bias.
  bool adds_bias_in_gemm(const RankContext& context) const;
  /// Whether the product of the forward has the terms, and whether that of the input gradient has.
  /// Else products of their own add them to its rounded result: of quantized operands, of
  /// magnitudes and dropout, and of rows that are multiplied as they arrive.
  bool adds_terms_in_product(const RankContext& context) const;
  bool adds_terms_in_gradient(const RankContext& context) const;
  /// x as the product reads it, which may be quantized, and as the terms do: the tensor.
  struct AdaptedInput {
    Operand of_product, of_terms;
  };
  /// The product and the terms of all tokens' rows, summed over the ranks.
  Tensor adapted_forward(RankContext& context, const GemmOverlap& row, const StreamProduct& product,
                         const AdaptedInput& in, SavedStore& saved, MemoryTag tag) const;
  /// The same with magnitudes, and the input gradient from dy, the stream's of a row-parallel layer
  /// (nn/linear_magnitudes.cpp).
  Tensor magnitude_forward(RankContext& context, const GemmOverlap& row,
                           const StreamProduct& product, const AdaptedInput& in, SavedStore& saved,
                           MemoryTag tag) const;
  Tensor magnitude_input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  bool columns() const { return overlap_.columns(); }
  /// The same of the terms in the product.
  Tensor joined_forward(RankContext& context, StreamProduct product, const AdaptedInput& in,
                        SavedStore& saved, MemoryTag tag) const;
  /// The product of all rows of dy with the terms' part of the gradient.
  Tensor joined_gradient(RankContext& context, StreamProduct product, const Operand& in,
                         const Tensor& dy, SavedStore& saved) const;
  /// Runs of the weight's columns; a layer with terms has one product.
  int64_t run_of_weight(const RankContext& context, const GemmOverlap& row,
                        const GemmEpilogue& epilogue, int64_t columns) const;
  Tensor input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved,
                        const GemmEpilogue& epilogue) const;
  Tensor column_input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  /// dW (= or +=) dyᵀ · x from x and dy of all tokens; `x_amax` where x is a tensor.
  void weight_gradient(RankContext& context, const Operand& x, const Operand& dy,
                       const Tensor& x_amax) const;
  /// Keeps x for the weight gradient and returns it as the forward's product reads it. `amax`: of
  /// a tensor.
  Operand keep_input(RankContext& context, const LinearInput& input, const Tensor& amax,
                     SavedStore& saved) const;
  /// The largest magnitude for the forward's x, which may be an operand that has its scales.
  Tensor input_amax(RankContext& context, const LinearInput& input, const SavedStore& saved) const;
  /// Whether x waits for the weight gradient as a tensor whose scale was made in the forward.
  bool keeps_amax(const RankContext& context) const;
  /// That scale's largest magnitude, or undefined.
  Tensor take_amax(const RankContext& context, SavedStore& saved) const;
  /// Adds x (forward) or dy (data gradient) to the context's log, if there is one.
  void log_operand(RankContext& context, GemmForm form, const Tensor& matrix, const Tensor& amax,
                   const StochasticRounding& rounding = {}) const;
  /// Keeps dy of all tokens for the second half, if there is one; as `keep_operand`.
  Operand keep_gradient(RankContext& context, const Tensor& dy, const Tensor& amax,
                        const StochasticRounding& rounding, SavedStore& saved) const;
  /// The forms in which "dy" (a) and "x" (b) are kept.
  GemmForms kept_forms(const RankContext& context) const;

  std::shared_ptr<const Parameter> weight_, bias_;
  LowRankTerms terms_;
  LinearOverlap overlap_;
  LinearQuantization operands_;
};

}  // namespace viaduct
