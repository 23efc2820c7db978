#include "plan/score/published_features.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "plan/score/published_text.h"

namespace viaduct {
namespace {

void set(PublishedRun& run, const char* override_text) {
  run.overrides.emplace_back(override_text);
}

/// The number behind a colon: "shard:64".
int64_t number_behind_colon(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return 0;
  const std::string digits = text.substr(colon + 1);
  const bool number = !digits.empty() && digits.size() < 9 &&
                      std::all_of(digits.begin(), digits.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? std::stoll(digits) : 0;
}

std::string fp8_recipe_of(const PublishedRow& row) {
  // These codes take scales from earlier steps; the others from the operands themselves.
  return starts_with_any(row.text("framework"), {"NeMo (", "NeMo 2", "MLPerf", "MaxText", "Paxml"})
             ? "bf16_with_fp8_delayed_scaling_mixed"
             : "bf16_with_fp8_current_scaling_mixed";
}

/// NVIDIA's tables were made with recipes for performance, which differ from those for training:
/// gradients are reduced in 16 bits (grad_reduce_in_fp32=False in Megatron-Bridge's `perf_recipes`
/// and NeMo's `scripts/performance`; before that grad_sync_dtype: bf16), and current scaling leaves
/// no block in BF16 (first_last_layers_bf16=False).
bool of_performance_recipe(const PublishedRow& row) {
  return starts_with_any(row.text("framework"),
                         {"NeMo (", "NeMo 2", "NeMo Megatron", "Megatron-Bridge"});
}

/// What a row recomputes. DGX Cloud Benchmarking's tables do not say it, its scripts do: MaxText's
/// configure.sh keeps the projections of attention (v24.11.1), or those of queries, keys and values
/// (v25.02: save_qkv_proj), paxml_mod_configs.py the results of products (5B) or the projections of
/// attention (175B).
std::string recompute_of(const PublishedRow& row) {
  const std::string framework = row.text("framework"), stated = lower_case(row.text("recompute"));
  if (!stated.empty() || framework.find("(DGX Cloud") == std::string::npos) return stated;
  const char* const between_projections = "core_attn+layernorm+mlp";
  if (framework.starts_with("MaxText"))
    return framework.find("v24.") != std::string::npos ? between_projections : "full";
  if (framework.starts_with("Paxml"))
    return row.text("model") == "gpt3-5b" ? "core_attn+layernorm" : between_projections;
  return stated;
}

/// Ranks that share the weights: Paxml's configurations of DGX Cloud Benchmarking shard them inside
/// a machine (ICI_MESH_SHAPE), and its script leaves that so for 5B (FSDP=1).
int64_t sharing_ranks(const PublishedRow& row, const std::string& sharding) {
  const bool in_machine = sharding == "yes" && row.text("framework").starts_with("Paxml");
  return sharding == "hsdp" || in_machine ? 8 : number_behind_colon(sharding);
}

/// Codes that reduce gradients in 16 bits: recipes for performance; MLPerf's submissions with NeMo
/// (grad_reduce_in_fp32=False in the pretrain.py of llama31_405b); llm-foundry, whose benchmarks
/// run FSDP with mixed_precision PURE (submit_benchmarks.py); InternEvo, whose optimizer reduces in
/// the weights' format.
bool reduces_in_16_bits(const PublishedRow& row) {
  return of_performance_recipe(row) ||
         starts_with_any(row.text("framework"), {"MLPerf", "llm-foundry", "InternEvo"});
}

/// Codes whose tensor ranks exchange beside the products: MLPerf's submissions with NeMo set
/// TP_COMM_OVERLAP=True (their config_DGXH100_*.sh and config_GB200_*.sh), but for FP4 False.
bool hides_tensor_exchanges(const PublishedRow& row) {
  const std::string framework = row.text("framework");
  if (framework.starts_with("MLPerf")) return lower_case(row.text("precision")) != "nvfp4";
  return starts_with_any(framework, {"NeMo", "Megatron-Bridge", "MegaScale"}) ||
         row.id().starts_with("mcore-ws") || row.notes_mention("async TP");
}

/// Optimizer instances with `shard` ranks each, where the data ranks are more.
void add_instances(const PublishedRow& row, int64_t shard, PublishedRun& run) {
  const int64_t gpus = row.needed_count("n_gpus");
  const int64_t model_ranks =
      row.count("tp").value_or(1) * row.count("pp").value_or(1) * row.count("cp").value_or(1);
  const int64_t data = gpus / model_ranks;
  if (shard > 0 && shard < data && data % shard == 0)
    run.overrides.push_back(
        fmt::format("ddp.num_distributed_optimizer_instances={}", data / shard));
}

/// Of release 25.09, which states no dispatchers, the script that measured DeepSeek-V3 on the H100
/// (scripts/performance/run_script.py of v0.1.0) sets overlap_moe_expert_parallel_comm.
bool overlaps_unsaid(const PublishedRow& row) {
  return bridge_release(row) == 2509 && row.text("model").starts_with("deepseek") &&
         row.text("hardware").starts_with("H100");
}

/// Megatron-Core sends a row to one of the tensor ranks that share its expert, which then gather it
/// (token_dispatcher.py); ours sends it to each of them. By domain it also goes over the network
/// once.
bool gathers_behind_exchange(const PublishedRow& row) {
  const bool megatron = starts_with_any(row.text("framework"), {"NeMo", "Megatron"});
  const int64_t unsaid = bridge_release(row) > 0 ? 1 : row.count("tp").value_or(1);
  return megatron && row.count("etp").value_or(unsaid) > 1;
}

}  // namespace

bool of_torchtitan(const PublishedRow& row) {
  return row.text("framework").starts_with("torchtitan");
}

bool of_early_megatron(const PublishedRow& row) {
  const std::string framework = row.text("framework");
  return framework.find("2021") != std::string::npos || row.id().starts_with("mlm-gpt3");
}

void add_precision(const PublishedRow& row, PublishedRun& run) {
  static const std::map<std::string, std::string> kRecipes{
      {"bf16", "bf16_mixed"},
      {"16bit", "bf16_mixed"},
      {"fp16", "fp16_mixed"},
      {"fp32", "fp32"},
      {"fp8-cs", "bf16_with_fp8_current_scaling_mixed"},
      {"fp8-tensorwise", "bf16_with_fp8_current_scaling_mixed"},
      {"fp8-delayed", "bf16_with_fp8_delayed_scaling_mixed"},
      {"fp8-sc", "bf16_with_fp8_subchannel_scaling_mixed"},
      {"fp8-blockwise", "bf16_with_fp8_subchannel_scaling_mixed"},
      {"fp8-mx", "bf16_with_mxfp8_mixed"},
      {"fp8-mxfp8", "bf16_with_mxfp8_mixed"},
      {"mxfp8", "bf16_with_mxfp8_mixed"},
      {"nvfp4", "bf16_with_nvfp4_mixed"}};
  const std::string precision = lower_case(row.text("precision"));
  if (precision.empty()) throw UnsupportedRow("the source does not state precision");
  const auto found = kRecipes.find(precision);
  if (found == kRecipes.end() && precision != "fp8")
    throw UnsupportedRow(fmt::format("precision {}: the trainer has no such recipe", precision));
  run.overrides.push_back("mixed_precision=" +
                          (precision == "fp8" ? fp8_recipe_of(row) : found->second));
  // torchtitan leaves out the output layer alone (float8.py).
  const bool all_blocks = of_performance_recipe(row) || of_torchtitan(row);
  if (all_blocks && run.overrides.back().ends_with("current_scaling_mixed"))
    set(run, "mixed_precision.first_last_layers_bf16=false");
}

void add_sharding(const PublishedRow& row, PublishedRun& run) {
  const std::string sharding = lower_case(row.text("fsdp"));
  if (of_early_megatron(row) && sharding.empty()) {
    set(run, "ddp.use_distributed_optimizer=false");
    set(run, "ddp.overlap_grad_reduce=false");
    return;
  }
  if (reduces_in_16_bits(row)) set(run, "ddp.grad_reduce_in_fp32=false");
  // Its configurations for models of this size gather weights after the update
  // (overlap_sync_param=False).
  if (row.text("framework").starts_with("InternEvo")) set(run, "ddp.overlap_param_gather=false");
  if (row.notes_mention("grad overlap off")) set(run, "ddp.overlap_grad_reduce=false");
  if (sharding.empty() || sharding == "no" || sharding == "0") return;
  if (starts_with_any(sharding, {"zero1", "shard-opt"}))
    return add_instances(row, number_behind_colon(sharding), run);
  // torchtitan's stages keep what they gathered (parallelize_llama.py: not reshard_after_forward).
  const bool kept = of_torchtitan(row) && row.count("pp").value_or(1) > 1;
  if (sharding == "shard_grad_op" || kept || row.notes_mention("without reshard")) {
    set(run, "ddp.data_parallel_sharding_strategy=optim_grads");
    return;
  }
  const bool shards_weights = sharding.find("shard-weights") != std::string::npos;
  const bool shards_gradients = sharding.find("shard-gradients") != std::string::npos;
  if (shards_weights && !shards_gradients)
    throw UnsupportedRow("shards of weights beside whole gradients: not available in the trainer");
  if (!shards_weights &&
      !starts_with_any(sharding, {"full", "zero3", "fsdp", "hsdp", "yes", "shard:", "1"}))
    throw UnsupportedRow(fmt::format("sharding {} is not known", sharding));
  set(run, "ddp.data_parallel_sharding_strategy=optim_grads_params");
  add_instances(row, sharing_ranks(row, sharding), run);
}

void add_recompute(const PublishedRow& row, PublishedRun& run) {
  const std::string recompute = recompute_of(row);
  const bool early = row.text("framework").find("202") != std::string::npos &&
                     row.text("framework").starts_with("Megatron-LM 202");
  if (early) {
    // Before fused attention kernels.
    set(run, "model.attention_backend=unfused");
  }
  if (recompute.empty() || recompute == "none") return;
  if (recompute.starts_with("full") || recompute == "recompute-block") {
    const int64_t layers = number_behind_colon(recompute.substr(0, recompute.find('-')));
    set(run, "model.recompute_granularity=full");
    set(run, layers > 0 ? "model.recompute_method=block" : "model.recompute_method=uniform");
    run.overrides.push_back(fmt::format("model.recompute_num_layers={}", layers > 0 ? layers : 1));
    return;
  }
  if (of_torchtitan(row) && recompute == "selective") {
    // Of its units the trainer has the norms; for its products see published_kernels.cpp.
    set(run, "model.recompute_granularity=selective");
    set(run, "model.recompute_modules=[layernorm]");
    return;
  }
  // Names of llm.q, and of Megatron-Bridge behind "modules:".
  static const std::map<std::string, std::string> kUnits{{"selective", "core_attn"},
                                                         {"core_attn", "core_attn"},
                                                         {"layernorm", "layernorm"},
                                                         {"moe_act", "moe_act"},
                                                         {"mla_up_proj", "mla_up_proj"},
                                                         {"mlp", "mlp"},
                                                         {"moe", "moe"},
                                                         {"shared_experts", "shared_experts"},
                                                         {"recompute-norm", "layernorm"},
                                                         {"recompute-ffn", "mlp"},
                                                         {"recompute-att", "core_attn"}};
  std::string rest =
      recompute.starts_with("modules:") ? recompute.substr(sizeof("modules:") - 1) : recompute;
  std::vector<std::string> units;
  while (!rest.empty()) {
    const std::string name = rest.substr(0, rest.find('+'));
    rest = name.size() < rest.size() ? rest.substr(name.size() + 1) : "";
    const auto unit = kUnits.find(name);
    if (unit == kUnits.end())
      throw UnsupportedRow(
          fmt::format("recompute {}: {} is not a unit of the trainer", recompute, name));
    units.push_back(unit->second);
  }
  set(run, "model.recompute_granularity=selective");
  run.overrides.push_back(fmt::format("model.recompute_modules=[{}]", fmt::join(units, ", ")));
}

void add_overlap(const PublishedRow& row, PublishedRun& run) {
  const bool off = row.notes_mention("overlap off");
  if (row.count("tp").value_or(1) > 1 && (!hides_tensor_exchanges(row) || off))
    set(run, "comm_overlap.tp_comm_overlap=false");
  if (expert_ranks(row) == 1) return;
  const bool can_overlap = row.count("pp").value_or(1) == 1 || row.count("vpp").value_or(1) > 1;
  const bool steps = bridge_release(row) > 0 && graphs_of(row).starts_with("full_iteration");
  const bool stated = (row.notes_mention("a2a overlap") && !row.notes_mention("no a2a overlap")) ||
                      row.notes_mention("EP comm overlap");
  if ((stated || steps || overlaps_unsaid(row)) && can_overlap) {
    set(run, "comm_overlap.overlap_moe_expert_parallel_comm=true");
    set(run, "comm_overlap.delay_wgrad_compute=true");
  }
  // DeepEP and HybridEP are backends of Megatron-Core's flex dispatcher, with and without that
  // overlap (apply_flex_dispatcher_backend).
  if (steps || gathers_behind_exchange(row) || row.notes_mention("dispatcher hybridep") ||
      row.notes_mention("HybridEP") || row.notes_mention("DeepEP") || row.notes_mention("deepep"))
    set(run, "model.moe_token_dispatcher_type=flex");
}

}  // namespace viaduct
