#pragma once
// Attention itself, between the rotary positions and the projection: heads of queries, keys and
// values in, heads out. Context parallelism is handled here; the surrounding layers do not see it.

#include <string_view>

#include "nn/attention_method.h"
#include "nn/batch.h"
#include "nn/context.h"
#include "nn/context_parallel/exchange.h"
#include "nn/context_parallel/ring_attention.h"
#include "nn/saved.h"
#include "ops/attention.h"

namespace viaduct {

struct AttentionSpec {
  int64_t layer = 0;                              // global number
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // held by this tensor rank
  int64_t first_head = 0;                         // global number of its head 0
  double scale = 1;
  double softcap = 0;
  int64_t window = 0;  // 0: unlimited
  double dropout = 0;
  ContextExchange context_exchange = ContextExchange::p2p;
  AttentionMethod method;
};

class CoreAttention {
 public:
  CoreAttention(AttentionSpec spec, std::string_view path);

  /// Attended values [T, N, D] of q [T, N, D], k and v [T, K, D]; keeps q, k, v, the output and its
  /// log-sum-exp. The tokens of other context ranks are attended to over the groups of `context`.
  Tensor forward(RankContext& context, const Batch& batch, const AttentionHeads& heads,
                 SavedStore& saved) const;
  /// dq, dk, dv in the statistic format from the gradient of the output.
  AttentionHeads backward(RankContext& context, const Batch& batch, const Tensor& d_out,
                          SavedStore& saved) const;
  /// The kept output, for its last reader.
  Tensor take_output(SavedStore& saved) const { return saved.take(this, "out"); }

  const AttentionSpec& spec() const { return spec_; }

 private:
  struct Route;
  Route route(RankContext& context, const Batch& batch) const;
  AttentionProblem problem(const RankContext& context, const Batch& batch) const;
  Tensor attend_all(RankContext& context, const Batch& batch, const AttentionHeads& heads,
                    SavedStore& saved) const;
  Tensor forward_cached(RankContext& context, const Batch& batch,
                        const AttentionHeads& heads) const;

  AttentionSpec spec_;
  uint64_t dropout_hash_;
  std::shared_ptr<Communicator> alone_;
};

}  // namespace viaduct
