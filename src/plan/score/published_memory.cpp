#include "plan/score/published_memory.h"
#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/score/published_features.h"
#include "plan/score/published_recipe.h"

namespace viaduct {
namespace {

// Of the tests' tokenizer (GPT-2), which the table leaves out.
constexpr int64_t kVocabulary = 50257;

/// Megatron-LM's of a feed-forward with gate where none is stated.
int64_t default_gated_width(int64_t hidden) {
  return 4 * hidden * 2 / 3 / 64 * 64;
}

/// Of a feed-forward with gate that has the products and the kept activations of one without.
int64_t gated_width(int64_t width, int64_t tensor_ranks) {
  const int64_t multiple = 16 * tensor_ranks;  // as products in FP8 need it on a rank
  return (width * 2 / 3 + multiple / 2) / multiple * multiple;
}

void add_model(const PublishedRow& row, PublishedRun& run) {
  const auto add = [&](const char* field, const std::string& value) {
    run.overrides.push_back(fmt::format("model.{}={}", field, value));
  };
  const auto add_count = [&](const char* field, const char* column) {
    if (const auto value = row.count(column)) add(field, std::to_string(*value));
  };
  const std::string test = row.text("test_case");
  for (const char* name : {"vlm", "multimodal", "llava"})
    if (test.find(name) != std::string::npos)
      throw UnsupportedRow(
          "a model of images and text; the row has only the sizes of the text part");
  if (test.find("distill") != std::string::npos)
    throw UnsupportedRow("a second model, the teacher, is on the same GPUs");
  if (row.flag("mla")) throw UnsupportedRow("latent attention without the sizes of its parts");
  if (row.count("mtp"))
    throw UnsupportedRow(
        "multi-token prediction beside layers that the trainer does not have it for");
  const bool experts = row.count("experts").value_or(0) > 0;
  const bool gated = row.flag("gated");
  if (row.count("shared_ffn") && experts)
    throw UnsupportedRow("shared experts beside attention without latent vectors");
  const int64_t heads = row.needed_count("heads"), groups = row.count("kv_heads").value_or(heads);
  // GPT with learned positions, or its substitute where the family has no such layer.
  const bool gpt = !gated && !experts && groups == heads &&
                   row.text("position_embedding") != "rope" &&
                   row.text("normalization") != "RMSNorm";
  const int64_t hidden = row.needed_count("hidden");
  int64_t feed_forward =
      row.count("ffn_hidden").value_or(gated ? default_gated_width(hidden) : 4 * hidden);
  int64_t of_expert = row.count("moe_ffn").value_or(feed_forward);
  if (!gpt && !gated) {
    const int64_t tp = row.count("tp").value_or(1);
    feed_forward = gated_width(feed_forward, tp), of_expert = gated_width(of_expert, tp);
    run.notes.emplace_back("a gate and two thirds of the width stand for a feed-forward without");
  }
  // Mixtral's experts have the width of its feed-forward, and weights that are relative to each
  // other.
  const int64_t topk = row.count("topk").value_or(2);
  const bool as_mixtral = of_expert == feed_forward && topk > 1;
  add("family", gpt ? "gpt2" : !experts ? "llama" : as_mixtral ? "mixtral" : "qwen3_moe");
  add("num_layers", std::to_string(row.needed_count("layers")));
  add("hidden_size", std::to_string(hidden));
  add("num_attention_heads", std::to_string(heads));
  if (!gpt) add("num_query_groups", std::to_string(groups)), add_count("kv_channels", "head_dim");
  if (gpt && row.text("linear_bias") == "0") add("add_bias_linear", "false");
  add("ffn_hidden_size", std::to_string(feed_forward));
  if (experts) {
    add_count("num_moe_experts", "experts");
    add("moe_router_topk", std::to_string(topk));
    if (!as_mixtral) add("moe_ffn_hidden_size", std::to_string(of_expert));
    if (topk == 1) add("moe_router_pre_softmax", "true");
  }
  add("vocab_size", std::to_string(row.count("vocab_size").value_or(kVocabulary)));
  add("share_embeddings_and_output_weights", row.flag("untied") ? "false" : "true");
}

/// `layers_per_vpp_stage` as virtual stages.
void add_chunks(const PublishedRow& row, PublishedRun& run) {
  const auto each = row.count("layers_per_vpp_stage");
  if (!each) return;
  const int64_t chunk = row.count("pp").value_or(1) * *each, layers = row.needed_count("layers");
  if (layers % chunk != 0)
    throw UnsupportedRow(fmt::format("{} in chunks of {}", counted(layers, "layer"), *each));
  if (layers / chunk > 1)
    run.overrides.push_back(
        fmt::format("model.virtual_pipeline_model_parallel_size={}", layers / chunk));
}

}  // namespace

PublishedRun published_memory_run(const PublishedRow& row) {
  PublishedRun run;
  add_model(row, run);
  add_precision(row, run);
  const int64_t layers = row.needed_count("layers");
  add_layout(row, layers, run);
  add_chunks(row, run);
  std::erase_if(run.overrides, [](const std::string& text) {
    return text.starts_with("model.sequence_parallel=");
  });
  if (row.count("tp").value_or(1) > 1)
    run.overrides.push_back(fmt::format("model.sequence_parallel={}", row.flag("seq_parallel")));
  const bool sharded = row.flag("dist_opt") || row.flag("fsdp");
  run.overrides.push_back(fmt::format("ddp.use_distributed_optimizer={}", sharded));
  if (row.flag("fsdp"))
    run.overrides.emplace_back("ddp.data_parallel_sharding_strategy=optim_grads_params");
  add_recompute(row, run);
  add_recipe(row, run);
  return run;
}

}  // namespace viaduct
