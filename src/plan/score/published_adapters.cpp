#include <fmt/format.h>

#include "plan/score/published_features.h"

namespace viaduct {

void add_adapters(const PublishedRow& row, PublishedRun& run) {
  if (!row.notes_mention("LoRA")) return;
  const std::string framework = row.text("framework");
  // NeMo's recipes of these tables adapt the fused q, k, v alone
  // (finetune_performance_optimizations of llama3_8b.py and others: rank 8); Automodel's benchmarks
  // all linear layers (examples/benchmark/configs/peft: rank 16).
  const bool automodel = framework.starts_with("NeMo Automodel");
  const bool fused =
      !automodel && (framework.starts_with("NeMo") || framework.starts_with("Megatron-Bridge") ||
                     framework.starts_with("MLPerf"));
  const std::string layers = fused ? "linear_qkv" : "all-linear";
  const int rank = fused ? 8 : 16;
  run.overrides.emplace_back("peft.scheme=lora");
  run.overrides.push_back(fmt::format("peft.dim={}", rank));
  run.overrides.push_back(fmt::format("peft.target_modules=[{}]", layers));
  run.notes.push_back(
      fmt::format("adapters not stated, assumed to be of rank {} on {}", rank, layers));
  // Its configuration of this model says activation_checkpointing (the same folder).
  if (!automodel || !row.text("model").starts_with("llama3-70b") || !row.text("recompute").empty())
    return;
  for (const char* field : {"granularity=full", "method=uniform", "num_layers=1"})
    run.overrides.push_back(fmt::format("model.recompute_{}", field));
  run.notes.emplace_back("recompute not stated, assumed to be of whole layers");
}

}  // namespace viaduct
