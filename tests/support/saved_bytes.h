#pragma once
// The bytes that blocks save for their backward, by formula.

#include <algorithm>
#include <string_view>

#include "support/tensor_ranks.h"

namespace viaduct::test {

/// Bytes that a rank saves of a block, by the sizes of its part: the table of docs/memory.md, which
/// the planner uses too.
class SavedBytes {
 public:
  explicit SavedBytes(const TensorRun& run)
      : model_(run.model),
        recipe_(precision_recipe(run.recipe, run.fp32_residual)),
        // For rows of 5, 3 and 8 tokens, padded for the cut over context ranks.
        tokens_(run.cp == 1   ? 16
                : run.cp == 2 ? 20 / 2
                              : 24 / 4),
        rows_(run.sequence_parallel ? tokens_ / run.tp : tokens_),
        heads_(model_.heads / run.tp),
        kv_heads_(std::max<int64_t>(1, model_.kv_heads / run.tp)),
        width_(model_.feed_forward / run.tp),
        exchanged_(run.cp > 1 && !run.context_exchange.empty() &&
                   (run.context_exchange[0] == ContextExchange::a2a ||
                    run.context_exchange[0] == ContextExchange::a2a_p2p)),
        copies_heads_(model_.qk_norm ||
                      (model_.positions == PositionKind::rotary && !model_.rope_fusion)),
        gates_apart_(model_.gated && !run.fusions.bias_activation) {}

  /// Bytes freed by recomputing one unit alone.
  int64_t dropped(std::string_view unit) const {
    if (unit == unit::attn_norm || unit == unit::mlp_norm) return norm_output();
    // Exchanged heads belong to core_attn. Heads before the exchange are not saved, except as input
    // of norms.
    if (unit == unit::qkv_linear && exchanged_) return model_.qk_norm ? qkv() : 0;
    if (unit == unit::qkv_linear) return qkv() + copied_heads();
    // Heads before the exchange in place of exchanged heads: values that norms save anyway, and
    // copies of the others.
    if (unit == unit::core_attn)
      return attended() + (exchanged_ && model_.qk_norm ? heads_bytes(kv_heads_) : 0);
    if (unit == unit::mlp) {
      return ((model_.gated ? 3 : 2) + (gates_apart_ ? 1 : 0)) * tokens_ * width_ * activation();
    }
    return 0;  // attn_proj: its input is another unit's output, its output the stream
  }
  /// Bytes of a whole block, including its input stream.
  int64_t block() const {
    int64_t sum = 2 * stream() + statistics() +
                  (model_.output_norms ? 2 * norm_output() : 0);  // their inputs
    for (const std::string_view unit :
         {unit::attn_norm, unit::qkv_linear, unit::mlp_norm, unit::mlp})
      sum += dropped(unit);
    return sum + attended() + (exchanged_ ? qkv() : 0);
  }
  /// One number a row of these.
  int64_t statistics() const {
    const int64_t norms = 2 + (model_.output_norms ? 2 : 0);
    const int64_t numbers = rows_ * norms * (model_.norm == NormKind::layer_norm ? 2 : 1) +
                            tokens_ * heads_ +
                            (model_.qk_norm ? tokens_ * (heads_ + kv_heads_) : 0);
    return numbers * dtype_bytes(recipe_.statistic);
  }
  /// Bytes that leave the device if only this unit is offloaded, in models without norms on heads:
  /// tensors that no other unit saves.
  int64_t offloaded(std::string_view unit) const {
    if (unit == unit::attn_norm || unit == unit::mlp_norm) return stream();
    if (unit == unit::qkv_linear) return norm_output();
    if (unit == unit::core_attn) return qkv() + copied_heads();
    if (unit == unit::mlp) return norm_output() + dropped(unit);
    return 0;  // attn_proj: core_attn also saves its input
  }
  /// The input of attn_proj, of which core_attn saves a view.
  int64_t attended() const { return heads_bytes(heads_); }
  int64_t stream() const { return rows_ * model_.hidden * dtype_bytes(recipe_.stream); }

 private:
  int64_t activation() const { return dtype_bytes(recipe_.activation); }
  int64_t norm_output() const { return rows_ * model_.hidden * activation(); }
  int64_t heads_bytes(int64_t heads) const {
    return tokens_ * heads * model_.head_dim * activation();
  }
  int64_t qkv() const { return heads_bytes(heads_ + 2 * kv_heads_); }
  /// Queries and keys that are not views of the QKV output: normed, or rotated by separate ops.
  int64_t copied_heads() const { return copies_heads_ ? heads_bytes(heads_ + kv_heads_) : 0; }

  ModelConfig model_;
  PrecisionRecipe recipe_;
  int64_t tokens_, rows_, heads_, kv_heads_, width_;
  bool exchanged_, copies_heads_, gates_apart_;
};

}  // namespace viaduct::test
