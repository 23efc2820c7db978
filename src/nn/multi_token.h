#pragma once
// Multi-token prediction (DeepSeek-AI 2024, arXiv 2412.19437, section 2.2): layer k = 1, 2, …
// after the model's last block predicts the token k + 1 places further on. With the rows h of the
// layer before it (the model's own at k = 1), as the head there reads them after its norm:
//
//   h' = W · [norm(embedding of the token k places further on); norm(head norm(h))]
//   h  = block(h'),   loss k = cross entropy of head(head norm k(h)) and the token k + 1 places on
//
// with the embedding and the head of the model. A layer has three parts: the input below, a
// transformer block, and the head below. The residual stream that the model's own head reads
// bypasses them under the name kTrunk. All of it runs only in training.
//
// The order of the columns of W, and the norm before the second one, are those of DeepSeek's
// published weights and of Megatron's code.

#include <memory>

#include "nn/head.h"
#include "nn/norm.h"
#include "nn/replicated_linear.h"
#include "nn/residual.h"
#include "nn/segment.h"

namespace viaduct {

/// The residual stream after the model's last block, while layers of multi-token prediction run.
inline constexpr std::string_view kTrunk = "trunk";

struct MultiTokenInputParts {
  Norm previous_norm;  // of the head of the layer before; shares its parameters
  Norm hidden_norm, embedding_norm;
  std::shared_ptr<const Parameter> tokens;  // the model's token table [V here, H]
  double embedding_scale = 1;
  ResidualDropout dropout;   // of the embedding
  int64_t padding = -1;      // looking it up gives no gradient; −1: none
  ReplicatedLinear project;  // W [H, 2 H]
};

/// Stream → stream. The first one also passes the stream on as kTrunk.
class MultiTokenInputSegment final : public Segment {
 public:
  /// `depth`: 0 for k = 1.
  MultiTokenInputSegment(size_t depth, MultiTokenInputParts parts)
      : depth_(depth), parts_(std::move(parts)) {}

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override {
    return depth_ > 0 ? std::vector{kHidden} : std::vector{kHidden, kTrunk};
  }
  /// ShapeError if the batch has no tokens of this depth.
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::vector<const Parameter*> read_backward() const override;
  std::string_view name() const override { return "multi_token_input"; }

 private:
  /// Rows of the embedding [stream tokens, H] of the tokens further on.
  Tensor embed(RankContext& context, const Batch& batch) const;
  int64_t first_row(const RankContext& context) const;
  /// Its parameters except the token table.
  std::vector<const Parameter*> multiplied() const;

  size_t depth_;
  MultiTokenInputParts parts_;
};

/// The loss of a depth. The last one returns the model's own stream, the others pass theirs on.
class MultiTokenHeadSegment final : public Segment {
 public:
  /// `head`: the model's weight with this depth's norm. `loss_scale`: of the depth's loss in the
  /// total.
  MultiTokenHeadSegment(size_t depth, bool last, int64_t hidden, double loss_scale,
                        HeadSegment head)
      : depth_(depth),
        last_(last),
        hidden_(hidden),
        loss_scale_(loss_scale),
        head_(std::move(head)) {}

  Edge inputs(const RankContext&, const Batch&) const override;
  std::vector<std::string_view> outputs() const override { return {kHidden}; }
  /// Adds the weighted token losses and the weights to context.depth_losses.
  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward(RankContext&, const Batch&, const TensorSet& d_out, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override { return head_.parameters(); }
  std::string_view name() const override { return "multi_token_head"; }

 private:
  /// The batch as the head of this depth sees it.
  Batch of_depth(const Batch& batch) const;
  /// The same with weights times the loss scale: the gradient starts from it.
  Batch scaled_of_depth(RankContext& context, const Batch& batch) const;
  /// From the head's gradient of its input and that of the output to the gradients of the inputs.
  TensorSet join(RankContext& context, const Tensor& d_stream, const TensorSet& d_out) const;

  size_t depth_;
  bool last_;
  int64_t hidden_;
  double loss_scale_;
  HeadSegment head_;
};

}  // namespace viaduct
