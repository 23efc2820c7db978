#pragma once
// The attention segment of multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434, section
// 2.1): norm → compressed vectors → norms → heads → rotary positions → attention → projection →
// dropout → +. N heads of this tensor rank with P dims without positions, R with rotary positions
// and Dv of values; Cq and C are the sizes of the compressed vectors of queries and of keys and
// values.

#include <optional>

#include "nn/core_attention.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/replicated_linear.h"
#include "nn/residual.h"
#include "nn/rotary_embedding.h"
#include "nn/segment.h"

namespace viaduct {

struct LatentAttentionParts {
  Norm input_norm;
  /// Rows [Cq, with compressed queries | C | R]: the compressed vectors, and the part of the keys
  /// with rotary positions, which all heads share.
  ReplicatedLinear down;
  std::optional<Norm> query_norm;  // over Cq; absent: queries come from the stream
  Linear query;                    // rows of a head [P | R]
  Norm key_value_norm;             // over C
  Linear key_value;                // rows of a head [P of the key | Dv]
  RotaryEmbedding rotary;          // over R dims
  Linear projection;
  ResidualDropout residual;
};

/// `spec`: head_dim is P + R, value_dim Dv, kv_heads N. In generation the cache holds for each
/// token the compressed vector of keys and values (after its norm) and the rotary part of the keys
/// (after rotation): C + R numbers, whatever N is. Keys and values of all heads are made from all
/// of them in each step.
class LatentAttentionSegment final : public StreamSegment {
 public:
  LatentAttentionSegment(AttentionSpec spec, LatentAttentionParts parts, std::string_view path)
      : core_(spec, path, nullptr, parts.projection.weight()), parts_(std::move(parts)) {}

  TensorSet forward(RankContext&, const Batch&, const TensorSet& in, SavedStore&) override;
  TensorSet backward_input(RankContext&, const Batch&, const TensorSet&, SavedStore&) override;
  void backward_weight(RankContext&, const Batch&, SavedStore&) override;
  std::vector<const Parameter*> parameters() const override;
  std::string_view name() const override { return "attention"; }

 private:
  int64_t features() const override { return parts_.input_norm.features(); }
  /// Of this rank's rows of the stream: what queries are made from (Cq, or the normed stream), the
  /// normed vectors [., C], and the rotary part of the keys [., R] without rotation.
  struct Compressed {
    Tensor query, key_value, key_rotary;
  };
  Compressed compress(RankContext& context, const Tensor& normed, SavedStore& saved) const;
  Compressed compress_unit(RankContext& context, const Tensor& normed, SavedStore& saved) const;
  /// q and k [T, N, P + R], v [T, N, Dv].
  AttentionHeads expand(RankContext& context, const Batch& batch, const Compressed& from,
                        SavedStore& saved) const;
  AttentionHeads expand_unit(RankContext& context, const Batch& batch, const Compressed& from,
                             SavedStore& saved) const;
  Tensor attend_cached(RankContext& context, const Batch& batch, const Compressed& from,
                       SavedStore& saved) const;
  Tensor queries(RankContext& context, const Batch& batch, const Tensor& from,
                 SavedStore& saved) const;
  /// Keys and values of rows [T, C] and [T, R], the latter as they are.
  AttentionHeads keys_and_values(RankContext& context, const Tensor& compressed,
                                 const Tensor& rotary, SavedStore& saved) const;
  /// The last R dims of heads [T, N, …], rotated in place (`inverse`: back).
  void rotate(RankContext& context, const Batch& batch, const Tensor& rotary, bool inverse) const;

  int64_t compressed_queries() const {
    return parts_.query_norm ? parts_.query_norm->features() : 0;
  }
  int64_t compressed() const { return parts_.key_value_norm.features(); }
  int64_t rotary_dim() const { return parts_.down.outputs() - compressed_queries() - compressed(); }
  int64_t plain_dim() const { return core_.spec().head_dim - rotary_dim(); }

  CoreAttention core_;
  LatentAttentionParts parts_;
};

}  // namespace viaduct
