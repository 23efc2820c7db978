#pragma once
// The linear layer of a router: logits from normed tokens, in the formats of RouterFormat. Every
// tensor rank holds its weight whole.

#include <memory>

#include "nn/context.h"
#include "nn/low_rank.h"
#include "nn/moe/moe_config.h"
#include "nn/saved.h"

namespace viaduct {

/// `tensor` in `dtype`: itself, or a converted copy.
Tensor in_dtype(RankContext& context, const Tensor& tensor, DType dtype,
                MemoryTag tag = MemoryTag::activations);

class RouterProduct {
 public:
  /// `weight` [E, H]; `bias` [E], or null. `terms` are added to the weight, in the activation
  /// format. ConfigError for terms of FP64 logits.
  RouterProduct(std::shared_ptr<const Parameter> weight, RouterFormat format,
                std::shared_ptr<const Parameter> bias = nullptr, LowRankTerms terms = {});

  /// logits [T, E] = tokens [T, H] · Wᵀ + bias; keeps the tokens.
  Tensor forward(RankContext& context, const Tensor& tokens, SavedStore& saved) const;
  /// d_tokens + d_logits · W [T, H], a new tensor in the format of d_tokens; the gradient of the
  /// bias accumulates (+=).
  Tensor backward_input(RankContext& context, const Tensor& d_logits, const Tensor& d_tokens,
                        SavedStore& saved) const;
  /// dW (= or +=) d_logitsᵀ · tokens.
  void backward_weight(RankContext& context, SavedStore& saved) const;
  void append_parameters(std::vector<const Parameter*>& list) const;

 private:
  /// The format of the products, and that of the logits.
  DType format(const RankContext& context) const;
  DType logit_format(const RankContext& context) const;
  Tensor in_format(RankContext& context, const Tensor& tensor) const {
    return in_dtype(context, tensor, format(context));
  }

  /// Whether the backward has a second half: the weight is trained, or has terms.
  bool has_weight_half() const { return weight_->trained || terms_.any(); }

  std::shared_ptr<const Parameter> weight_, bias_;
  RouterFormat format_;
  LowRankTerms terms_;
};

}  // namespace viaduct
