#pragma once
// A linear layer y = x · Wᵀ + b with W [out, in], cut over the tensor ranks by its output features
// (column-parallel) or its input features (row-parallel): the GEMMs of a segment and what they make
// the tensor ranks exchange (Shoeybi et al. 2019; sequence parallel: Korthikanti et al. 2022).
// Keeps nothing itself; its segment does.

#include <memory>

#include "nn/context.h"

namespace viaduct {

/// Which features of W [out, in] are cut: columns of x · Wᵀ (out), or rows of Wᵀ (in).
enum class LinearSplit {
  columns,  // x is the stream, y this rank's features of all tokens
  rows,     // x is this rank's features of all tokens, y the stream
};

class Linear {
 public:
  /// `bias` may be null; a row-parallel layer adds it once.
  Linear(LinearSplit split, std::shared_ptr<const Parameter> weight,
         std::shared_ptr<const Parameter> bias);

  /// y [T, out] of x [T, in]; out and in as held here. The side that is the stream has its rows.
  Tensor forward(RankContext& context, const Tensor& x, MemoryTag tag = MemoryTag::saved) const;

  struct Backward {
    Tensor dx;
    Tensor dy;  // all tokens: what backward_weight takes
  };
  /// dx of dy; the gradient of the bias accumulates.
  Backward backward_input(RankContext& context, const Tensor& dy) const;
  /// Gradient of the weight from the forward's x and the dy that backward_input gave.
  void backward_weight(RankContext& context, const Tensor& x, const Tensor& dy) const;

  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  LinearSplit split_;
  std::shared_ptr<const Parameter> weight_, bias_;
};

}  // namespace viaduct
