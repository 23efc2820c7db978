#pragma once
// The linear layer of a router: logits from normed tokens, in the formats of RouterFormat. Every
// tensor rank holds its weight whole.

#include <memory>

#include "nn/context.h"
#include "nn/moe/moe_config.h"
#include "nn/saved.h"

namespace viaduct {

/// `tensor` in `dtype`: itself, or a converted copy.
Tensor in_dtype(RankContext& context, const Tensor& tensor, DType dtype,
                MemoryTag tag = MemoryTag::activations);

class RouterProduct {
 public:
  /// `weight` [E, H]; `bias` [E], or null.
  RouterProduct(std::shared_ptr<const Parameter> weight, RouterFormat format,
                std::shared_ptr<const Parameter> bias = nullptr)
      : weight_(std::move(weight)), bias_(std::move(bias)), format_(format) {}

  /// logits [T, E] = tokens [T, H] · Wᵀ + bias; keeps the tokens.
  Tensor forward(RankContext& context, const Tensor& tokens, SavedStore& saved) const;
  /// d_tokens + d_logits · W [T, H], a new tensor in the format of d_tokens; the gradient of the
  /// bias accumulates (+=).
  Tensor backward_input(RankContext& context, const Tensor& d_logits, const Tensor& d_tokens,
                        SavedStore& saved) const;
  /// dW (= or +=) d_logitsᵀ · tokens.
  void backward_weight(RankContext& context, SavedStore& saved) const;
  const Parameter* parameter() const { return weight_.get(); }
  /// Null without a bias.
  const Parameter* bias() const { return bias_.get(); }

 private:
  /// The format of the products, and that of the logits.
  DType format(const RankContext& context) const;
  DType logit_format(const RankContext& context) const;
  Tensor in_format(RankContext& context, const Tensor& tensor) const {
    return in_dtype(context, tensor, format(context));
  }

  std::shared_ptr<const Parameter> weight_, bias_;
  RouterFormat format_;
};

}  // namespace viaduct
