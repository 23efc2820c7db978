#pragma once
// A linear layer y = x · Wᵀ + b with W [out, in], cut over the tensor ranks by its output features
// (column-parallel) or its input features (row-parallel): the GEMMs of a segment and what they make
// the tensor ranks exchange (Shoeybi et al. 2019; sequence parallel: Korthikanti et al. 2022), one
// hidden under the other where the context's table says so. Keeps what its backward reads.

#include <memory>
#include <optional>

#include "nn/context.h"
#include "nn/saved.h"
#include "ops/gemm.h"

namespace viaduct {

/// Which layer of a block it is: its rows of the table of overlaps, and which features of W
/// [out, in] are cut.
enum class LinearRole {
  qkv,   // column-parallel: x is the stream, y this rank's features of all tokens
  proj,  // row-parallel: x is this rank's features of all tokens, y the stream
  fc1,   // column-parallel
  fc2,   // row-parallel
};

class Linear {
 public:
  /// `bias` may be null; a row-parallel layer adds it once.
  Linear(LinearRole role, std::shared_ptr<const Parameter> weight,
         std::shared_ptr<const Parameter> bias);

  /// y [T, out] of x [T, in]; out and in as held here. The side that is the stream has its rows.
  /// `epilogue`: what `takes_epilogue` allows, of y's rows. `format` of y: none is that of
  /// activations, and so is all that tensor ranks sum.
  Tensor forward(RankContext& context, const Tensor& x, SavedStore& saved,
                 MemoryTag tag = MemoryTag::saved, const GemmEpilogue& epilogue = {},
                 std::optional<DType> format = {}) const;
  /// dx of dy; the gradient of the bias accumulates. With an `epilogue` (row-parallel layers) the
  /// gradient of its `raised`, in its place.
  Tensor backward_input(RankContext& context, const Tensor& dy, SavedStore& saved,
                        const GemmEpilogue& epilogue = {}) const;
  /// Gradient of the weight. Already there where it ran under the exchange of the input gradient.
  void backward_weight(RankContext& context, SavedStore& saved) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

  /// Whether the GEMM of the forward may go on with its result: it has the whole sum, with the
  /// bias.
  bool takes_epilogue(const RankContext& context) const;
  /// Output features held here.
  int64_t outputs() const { return weight_->shape[0]; }

 private:
  /// Whether the GEMM of the forward adds the bias.
  bool adds_bias_in_gemm(const RankContext& context) const;
  bool columns() const { return role_ == LinearRole::qkv || role_ == LinearRole::fc1; }
  Tensor input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved,
                        const GemmEpilogue& epilogue) const;
  Tensor column_input_gradient(RankContext& context, const Tensor& dy, SavedStore& saved) const;
  /// From x and dy of all tokens.
  void weight_gradient(RankContext& context, const Operand& x, const Operand& dy) const;
  /// The forms in which "dy" (a) and "x" (b) are kept.
  GemmForms kept_forms(const RankContext& context) const;

  LinearRole role_;
  std::shared_ptr<const Parameter> weight_, bias_;
};

}  // namespace viaduct
