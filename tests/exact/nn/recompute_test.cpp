// What the backward makes again instead of the forward keeping it: the bits of loss and gradients
// stay, and exactly the bytes of a table are not kept. With dropout, on many layouts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "support/tensor_ranks.h"
#include "support/tiny_models.h"

namespace viaduct {
namespace {

using test::TensorOutcome;
using test::TensorRun;

ModelConfig model_of(const std::string& name, int64_t layers = 2) {
  ModelConfig model = test::tiny_model(name);
  model.layers = layers;
  // As every way of context exchange allows it.
  model.windows.clear();
  model.kv_heads = std::max<int64_t>(2, model.kv_heads);
  model.embedding_dropout = model.residual_dropout = model.attention_dropout = 0.2;
  return model;
}

/// What a rank keeps of a block in bytes, by the sizes of its part: the table of planner and
/// documentation (docs/memory.md).
class Table {
 public:
  explicit Table(const TensorRun& run)
      : model_(run.model),
        recipe_(precision_recipe(run.recipe, run.fp32_residual)),
        // Of the rows of 5, 3 and 8 tokens, padded so that context ranks cut them.
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

  /// What a unit drops that is recomputed alone.
  int64_t dropped(std::string_view unit) const {
    if (unit == unit::attn_norm || unit == unit::mlp_norm) return norm_output();
    // Exchanged heads are core_attn's own. Nobody keeps those before the exchange, but norms their
    // input.
    if (unit == unit::qkv_linear && exchanged_) return model_.qk_norm ? qkv() : 0;
    if (unit == unit::qkv_linear) return qkv() + copied_heads();
    // Instead of exchanged heads it holds those before the exchange: of what norms keep anyway the
    // values, and copies of the others.
    if (unit == unit::core_attn)
      return attended() + (exchanged_ && model_.qk_norm ? heads_bytes(kv_heads_) : 0);
    if (unit == unit::mlp) {
      return ((model_.gated ? 3 : 2) + (gates_apart_ ? 1 : 0)) * tokens_ * width_ * activation();
    }
    return 0;  // attn_proj: its input is another unit's output, its output the stream
  }
  /// Of a whole block with the stream that comes in.
  int64_t block() const {
    const int64_t norms = 2 + (model_.output_norms ? 2 : 0);
    const int64_t statistics = rows_ * norms * (model_.norm == NormKind::layer_norm ? 2 : 1) +
                               tokens_ * heads_ +
                               (model_.qk_norm ? tokens_ * (heads_ + kv_heads_) : 0);
    int64_t sum = 2 * stream() + statistics * dtype_bytes(recipe_.statistic) +
                  (model_.output_norms ? 2 * norm_output() : 0);  // their inputs
    for (const std::string_view unit :
         {unit::attn_norm, unit::qkv_linear, unit::mlp_norm, unit::mlp})
      sum += dropped(unit);
    return sum + attended() + (exchanged_ ? qkv() : 0);
  }
  int64_t stream() const { return rows_ * model_.hidden * dtype_bytes(recipe_.stream); }

 private:
  int64_t activation() const { return dtype_bytes(recipe_.activation); }
  int64_t norm_output() const { return rows_ * model_.hidden * activation(); }
  int64_t heads_bytes(int64_t heads) const {
    return tokens_ * heads * model_.head_dim * activation();
  }
  int64_t qkv() const { return heads_bytes(heads_ + 2 * kv_heads_); }
  /// Queries and keys that are not in the QKV product: normed, or rotated by ops of their own.
  int64_t copied_heads() const { return copies_heads_ ? heads_bytes(heads_ + kv_heads_) : 0; }
  int64_t attended() const { return heads_bytes(heads_); }

  ModelConfig model_;
  PrecisionRecipe recipe_;
  int64_t tokens_, rows_, heads_, kv_heads_, width_;
  bool exchanged_, copies_heads_, gates_apart_;
};

struct LayoutRun {
  std::string name;
  TensorRun run;
};

TensorRun context_ranks(TensorRun run, int cp, ContextExchange exchange, int inner = 1) {
  run.cp = cp, run.cp_inner = inner;
  run.context_exchange.assign(static_cast<size_t>(run.model.layers), exchange);
  return run;
}

std::vector<LayoutRun> layouts(const ModelConfig& model, const std::string& recipe) {
  const TensorRun one{model, recipe};
  TensorRun tensor = one, sequence = one, overlapped = one, both = one;
  tensor.tp = sequence.tp = both.tp = 2;
  sequence.sequence_parallel = both.sequence_parallel = overlapped.sequence_parallel = true;
  overlapped.tp = 4;
  for (const OverlapGemm gemm : {OverlapGemm::qkv_fprop, OverlapGemm::fc1_fprop,
                                 OverlapGemm::proj_dgrad, OverlapGemm::fc2_dgrad})
    overlapped.overlap[gemm] = {OverlapMethod::ring_exchange};
  for (const OverlapGemm gemm : {OverlapGemm::qkv_dgrad, OverlapGemm::fc1_dgrad,
                                 OverlapGemm::qkv_wgrad, OverlapGemm::fc1_wgrad})
    overlapped.overlap[gemm] = {OverlapMethod::bulk};
  TensorRun halves = sequence, segments = one, unfused = one, wide = one;
  halves.walk = TensorRun::Walk::halves;
  segments.walk = TensorRun::Walk::segments;
  unfused.fusions = {false, false, false, false, false};
  unfused.model.rope_fusion = false;
  wide.fp32_residual = true;
  wide.recompute_logits = false;
  return {{"one rank", one},
          {"tp 2", tensor},
          {"tp 2, sequence parallel", sequence},
          {"tp 4, overlapped", overlapped},
          {"cp 2", context_ranks(one, 2, ContextExchange::p2p)},
          {"cp 2, gathered", context_ranks(one, 2, ContextExchange::all_gather)},
          {"cp 2, heads exchanged", context_ranks(one, 2, ContextExchange::a2a)},
          {"cp 4, two levels", context_ranks(one, 4, ContextExchange::a2a_p2p, 2)},
          {"tp 2, cp 2", context_ranks(both, 2, ContextExchange::p2p)},
          {"halves", halves},
          {"segment by segment", segments},
          {"unfused", unfused},
          {"FP32 stream, kept logits", wide}};
}

SavedPolicy one_unit(int64_t block, std::string_view unit) {
  SavedPolicy policy;
  policy.set(block, unit, UnitPolicy::recompute);
  return policy;
}

void expect_recomputed(TensorRun run, const TensorOutcome& kept, const SavedPolicy& policy,
                       std::optional<int64_t> dropped_bytes) {
  run.saved_policy = policy;
  const TensorOutcome outcome = test::run_tensor_ranks(run);
  test::expect_same_bits(outcome, kept);
  const int64_t dropped = kept.saved_bytes - outcome.saved_bytes;
  EXPECT_EQ(dropped, dropped_bytes.value_or(dropped));
  EXPECT_EQ(outcome.saved_tag_bytes, outcome.saved_bytes) << "by tag, and by the store";
}

TEST(Recompute, OneUnitAtATimeDropsItsBytesAndChangesNoBit) {
  for (const char* name : {"llama", "gpt2", "qwen3", "gemma2"}) {
    for (const char* recipe : {"fp32", "bf16_mixed"}) {
      auto runs = layouts(model_of(name), recipe);
      // All of them for the model that has most terms.
      if (name != std::string_view("qwen3")) runs = {runs[0], runs[2]};
      for (const LayoutRun& layout : runs) {
        const TensorOutcome kept = test::run_tensor_ranks(layout.run);
        const Table table(layout.run);
        for (int64_t block = 0; block < 2; ++block) {
          for (const std::string_view unit : kUnits) {
            SCOPED_TRACE(
                fmt::format("{} {} {} block {} {}", name, recipe, layout.name, block, unit));
            expect_recomputed(layout.run, kept, one_unit(block, unit), table.dropped(unit));
          }
        }
      }
    }
  }
}

TEST(Recompute, LayersAndGroupsOfThemKeepTheirInputAlone) {
  for (const char* name : {"llama", "gpt2", "qwen3", "gemma2"}) {
    for (const LayoutRun& layout : layouts(model_of(name, 3), "bf16_mixed")) {
      SCOPED_TRACE(std::string(name) + " " + layout.name);
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      const Table table(layout.run);
      for (const auto& groups :
           {std::vector<LayerGroup>{{1, 1}}, std::vector<LayerGroup>{{0, 1}, {1, 1}, {2, 1}},
            std::vector<LayerGroup>{{0, 2}, {2, 1}}, std::vector<LayerGroup>{{0, 3}}}) {
        SavedPolicy policy;
        int64_t dropped = 0;
        for (const LayerGroup& group : groups) {
          policy.recompute_layers(group);
          dropped += group.blocks * table.block() - table.stream();
        }
        expect_recomputed(layout.run, kept, policy, dropped);
      }
    }
  }
}

// Bytes of units add up, but where core_attn exchanges heads: its own inputs are then dropped by
// qkv_linear.
TEST(Recompute, AnySubsetOfUnitsAndLayersOnEveryLayout) {
  std::mt19937 random(14);
  for (const char* name : {"llama", "qwen2", "qwen3", "gemma2", "gpt2"}) {
    const ModelConfig model = model_of(name, 3);
    for (const LayoutRun& layout : layouts(model, random() % 2 == 0 ? "fp32" : "bf16_mixed")) {
      const TensorOutcome kept = test::run_tensor_ranks(layout.run);
      const Table table(layout.run);
      for (int draw = 0; draw < 3; ++draw) {
        SavedPolicy policy;
        int64_t dropped = 0;
        std::string text;
        for (int64_t block = 0; block < model.layers; ++block) {
          for (const std::string_view unit : kUnits) {
            if (random() % 2 == 0) continue;
            policy.set(block, unit, UnitPolicy::recompute);
            dropped += table.dropped(unit);
            text += fmt::format(" {}.{}", block, unit);
          }
        }
        SCOPED_TRACE(fmt::format("{} {} recomputes{}", name, layout.name, text));
        const bool adds_up = layout.name.find("cp 2, heads") == std::string::npos &&
                             layout.name.find("cp 4") == std::string::npos;
        expect_recomputed(layout.run, kept, policy,
                          adds_up ? std::optional(dropped) : std::nullopt);
        if (draw == 0) {  // and one of the layers as a whole
          policy.recompute_layers({draw + 1, 1});
          expect_recomputed(layout.run, kept, policy, std::nullopt);
        }
      }
    }
  }
}

TEST(Recompute, EverythingAtOnce) {
  for (const LayoutRun& layout : layouts(model_of("qwen3", 3), "bf16_mixed")) {
    SCOPED_TRACE(layout.name);
    SavedPolicy units;
    for (int64_t block = 0; block < 3; ++block) {
      for (const std::string_view unit : kUnits) units.set(block, unit, UnitPolicy::recompute);
    }
    expect_recomputed(layout.run, test::run_tensor_ranks(layout.run), units, std::nullopt);
  }
}

}  // namespace
}  // namespace viaduct
