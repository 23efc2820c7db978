#pragma once
// The edges and the weights of the segments that exchange tokens with experts, with and without
// domains (ExpertPlace::by_domain). The derived classes exchange.

#include <memory>
#include <utility>

#include "nn/exchange_segment.h"
#include "nn/moe/moe_edges.h"
#include "nn/moe/shared_experts.h"
#include "nn/residual.h"

namespace viaduct {

/// From tokens to rows of experts.
class DispatchExchange : public ExchangeSegment {
 public:
  /// `beside`: the shared expert, which runs here while tokens are being exchanged, and its
  /// backward while their gradients are; null: it is a segment of its own, or there is none.
  DispatchExchange(MoeConfig moe, ExpertPlace place, int64_t hidden,
                   std::unique_ptr<SharedExpertSegment> beside)
      : moe_(std::move(moe)), place_(place), hidden_(hidden), beside_(std::move(beside)) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override;
  void backward_weight(RankContext& context, const Batch& batch, SavedStore& saved) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "dispatch"; }

 protected:
  /// The forward of the shared expert beside the exchange, if there is one. Its result, if it is
  /// read, goes into `out`.
  void run_beside(RankContext& context, const Batch& batch, const Tensor& tokens, SavedStore& saved,
                  TensorSet& out) const;

  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
  std::unique_ptr<SharedExpertSegment> beside_;
};

/// From results of experts to the stream: their sum by the router's probabilities (and the shared
/// expert's result) → dropout → +.
class CombineExchange : public ExchangeSegment {
 public:
  CombineExchange(MoeConfig moe, ExpertPlace place, int64_t hidden, ResidualDropout residual)
      : moe_(std::move(moe)), place_(place), hidden_(hidden), residual_(residual) {}

  Edge inputs(const RankContext& context, const Batch& batch) const override;
  std::vector<std::string_view> outputs() const override { return {kHidden}; }
  std::vector<std::string_view> read_for_outputs() const override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override {}
  std::vector<const Parameter*> parameters() const override { return {}; }
  std::string_view name() const override { return "combine"; }

 protected:
  /// Keeps what `spread_gradient` reads, of the inputs `in`.
  void keep_sum(const TensorSet& in, SavedStore& saved) const;
  /// The sum [T, H] of `results` [R, H] by position and weight. `copies`: rows of a choice.
  Tensor sum_results(RankContext& context, const TensorSet& in, const Tensor& results,
                     int64_t copies) const;
  /// The gradient [R, H] of the results from that of their sums, `d_out` [T, H].
  Tensor spread_gradient(RankContext& context, const Tensor& d_out, int64_t copies,
                         SavedStore& saved) const;

  MoeConfig moe_;
  ExpertPlace place_;
  int64_t hidden_;
  ResidualDropout residual_;
};

}  // namespace viaduct
