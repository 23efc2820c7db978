#pragma once
// Attention itself, between the rotary positions and the projection: heads of queries, keys and
// values in, heads out. Context parallelism is handled here; the surrounding layers do not see it.

#include <string_view>

#include "nn/attention_codes.h"
#include "nn/attention_method.h"
#include "nn/batch.h"
#include "nn/context.h"
#include "nn/context_parallel/exchange.h"
#include "nn/context_parallel/ring_attention.h"
#include "nn/kv_cache.h"
#include "nn/local_attention.h"
#include "nn/saved.h"
#include "ops/attention.h"

namespace viaduct {

struct AttentionSpec {
  int64_t layer = 0;                              // global number
  int64_t heads = 0, kv_heads = 0, head_dim = 0;  // held by this tensor rank
  int64_t value_dim = 0;                          // Dv, of a head of values
  int64_t first_head = 0;                         // global number of its head 0
  double scale = 1;
  double softcap = 0;
  int64_t window = 0;    // 0: unlimited
  bool chunked = false;  // attends within Batch::chunks
  bool causal = true;
  /// Keys and values are those of the encoder's rows (nn/encoder_rows.h): never causal.
  bool crosses = false;
  /// Tokens of images also see those ahead of them in their image (nn/image_attention.h).
  bool sees_ahead = false;
  double dropout = 0;
  ContextExchange context_exchange = ContextExchange::p2p;
  AttentionMethod method;
};

class CoreAttention {
 public:
  /// `sinks` [N]: a logit of each head of this rank that takes part in its softmax without a value
  /// (ops/attention_sink.h); null: none.
  /// `projection`: the weight of the layer that reads the attended values; attention uses its
  /// recipe (nn/attention_codes.h). null: attention is not in FP8.
  /// `relative`: added to the scores.
  CoreAttention(AttentionSpec spec, std::string_view path,
                std::shared_ptr<const Parameter> sinks = nullptr,
                std::shared_ptr<const Parameter> projection = nullptr, RelativeBias relative = {});

  /// Heads as `forward` reads them: codes, if the recipe says so.
  AttentionHeads prepare(RankContext& context, const AttentionHeads& heads,
                         const SavedStore& saved) const;
  /// Attended values [T, N · Dv], as the projection reads them, of q [T, N, D], k [T, K, D] and v
  /// [T, K, Dv]; keeps q, k, v, the output and its log-sum-exp. The tokens of other context ranks
  /// are attended to over the groups of `context`.
  Operand forward(RankContext& context, const Batch& batch, const AttentionHeads& heads,
                  SavedStore& saved) const;
  /// Generation: attended values of this step's queries over cached keys and values. `own`: heads
  /// of this step, where tokens of images see those ahead. ConfigError under context parallelism.
  Tensor attend_cached(RankContext& context, const Batch& batch, const Tensor& q,
                       const KeyValueCache::View& cached, const AttentionHeads& own = {}) const;
  /// The same over the keys and values of the encoder's output (nn/cross_cache.h), where it
  /// crosses.
  Tensor attend_kept(RankContext& context, const Batch& batch, const Tensor& q, const Tensor& k,
                     const Tensor& v) const;
  /// The gradient [T, N, Dv] of the output as the backward reads it, with its row sums: the last
  /// use of the kept output.
  AttendedGradient begin_backward(RankContext& context, const Tensor& d_out,
                                  SavedStore& saved) const;
  /// dq, dk, dv in the statistic format; the gradient of the sinks accumulates (+=).
  AttentionHeads backward(RankContext& context, const Batch& batch, const AttendedGradient& d_out,
                          SavedStore& saved) const;

  const AttentionSpec& spec() const { return spec_; }
  /// Null without sinks.
  const Parameter* sinks() const { return sinks_.get(); }
  /// The table of the relative bias; null without one.
  const Parameter* bias_table() const { return relative_.table.get(); }

 private:
  struct Route;
  Route route(RankContext& context, const Batch& batch) const;
  /// Whether queries of this batch's images see keys ahead of them.
  bool sees_ahead(const Batch& batch) const { return spec_.sees_ahead && batch.images.rows > 0; }
  /// Whether this rank has all keys of its queries: context ranks have whole rows of an encoder,
  /// and all of its output (nn/local_attention.h).
  bool has_all_keys() const { return !spec_.causal || spec_.crosses; }
  /// Whether attention is that of nn/local_attention.h.
  bool local(const Route& way) const;
  AttentionProblem problem(const RankContext& context, const Batch& batch) const;
  /// [Tq, N, Dv] without a backward.
  AttentionResult attend_over(RankContext& context, AttentionProblem problem, const Tensor& q,
                              const Tensor& k, const Tensor& v) const;
  /// The values, and the scale of codes.
  HeadCodes attend_all(RankContext& context, const Batch& batch, const AttentionHeads& heads,
                       SavedStore& saved) const;
  /// Corrects attended values of heads from `first_head` on (of this tensor rank) for their sinks.
  void add_sinks(RankContext& context, const Tensor& out, const Tensor& lse,
                 int64_t first_head) const;
  void add_sink_gradients(RankContext& context, const Tensor& lse, const Tensor& delta,
                          int64_t first_head) const;

  AttentionSpec spec_;
  std::shared_ptr<const Parameter> sinks_, projection_;
  RelativeBias relative_;
  uint64_t dropout_hash_;
  std::shared_ptr<Communicator> alone_;
};

}  // namespace viaduct
