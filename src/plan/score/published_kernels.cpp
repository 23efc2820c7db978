// What is known of the kernels of other trainers, and of what their steps capture.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "plan/op_time.h"
#include "plan/score/published_features.h"
#include "plan/score/published_text.h"

namespace viaduct {
namespace {

/// Codes whose experts are Transformer Engine's GroupedLinear. Its host launches the products of
/// each expert, and the conversion of their operands, one by one; ours launches one for all.
bool has_launches_of_each_expert(const PublishedRow& row) {
  const std::string framework = row.text("framework");
  return starts_with_any(framework, {"NeMo", "Megatron"}) &&
         !framework.starts_with("NeMo Automodel");
}

/// Of the host for each of these products, outside of graphs: fitted to the rows of qwen3-30b-a3b.
constexpr double kExpertProductSeconds = 8e-5;

/// Of the host for the forward of torch.nn.Linear, which is one kernel in BF16, on a DGX H100 (Xeon
/// Platinum 8480C) and on a GB200, whose host is Grace (TransformerEngine issue 2053). Its own
/// modules take more; a release of theirs is not known for each row.
constexpr double kLaunchOnXeon = 13.48e-6, kLaunchOnGrace = 37.08e-6;

/// Codes that run PyTorch op by op.
bool has_launches_of_each_op(const PublishedRow& row) {
  return !row.notes_mention("torch.compile") &&
         starts_with_any(row.text("framework"), {"NeMo", "Megatron", "MegaScale", "MLPerf", "Meta",
                                                 "llm-foundry", "InternEvo", "torchtitan"});
}

void add_graphs(const PublishedRow& row, PublishedRun& run) {
  const std::string graphs = graphs_of(row);
  const bool experts_over_ranks = expert_ranks(row) > 1;
  if (graphs.starts_with("full_iteration") && !experts_over_ranks) {
    run.overrides.emplace_back("model.cuda_graph_impl=full_iteration");
    return;
  }
  std::vector<std::string> modules;
  for (const char* module : {"attn", "mlp", "moe_router", "moe_preprocess"})
    if (graphs.starts_with("transformer_engine:") && graphs.find(module) != std::string::npos)
      modules.emplace_back(module);
  // The trainer captures layers between the exchanges of their experts.
  if (graphs.starts_with("full_iteration")) modules = {"attn", "moe_router", "moe_preprocess"};
  if (modules.empty()) return;
  run.overrides.emplace_back("model.cuda_graph_impl=local");
  run.overrides.push_back(fmt::format("model.cuda_graph_modules=[{}]", fmt::join(modules, ", ")));
}

/// Codes that run cuDNN's attention: those of Transformer Engine, which takes FlashAttention before
/// Hopper and cuDNN's from there on (get_attention_backend), those of JAX, and llm.q.
bool has_library_attention(const PublishedRow& row) {
  const std::string framework = row.text("framework");
  if (row.text("hardware").starts_with("A")) return false;
  if (framework.starts_with("NeMo Automodel"))
    return row.notes_mention("kernels TE") && !row.notes_mention("TorchSDPA") &&
           !row.notes_mention("FlexAttn");
  return starts_with_any(framework, {"NeMo", "Megatron", "MLPerf", "MaxText", "Paxml", "llmq"});
}

/// llm-foundry's `attn_impl: triton`, a kernel of 2022, which was fitted on the A100. Without the
/// instructions of Hopper a kernel gains there what FlashAttention-2 does by its authors: 335
/// instead of 230 TFLOP/s. As a share of the H100's measured products (794.5 TFLOP/s; 271.2 on the
/// A100: hardware/gpus.yaml).
constexpr double kAmpereAttentionOnHopper =
    OpTimeSettings{}.attention_share * 335 / 230 * 271.2 / 794.5;

/// InternEvo's: flash-attention 1.0.5 (its install.md), which reaches 30 to 50 % of the A100's peak
/// in the forward and 25 to 35 % in the backward (FlashAttention-2, arXiv 2307.08691, section 1):
/// 101 TFLOP/s of both together, as a share of the measured products.
constexpr double kFirstFlashAttention = 101 / 271.2;

/// torchtitan's selective recomputation repeats every second product of a block (_save_list and
/// _get_custom_policy of parallelize_llama.py) and keeps what attention gives: of wq, wk, wv, wo,
/// w1, w3, w2 those of wk, wo and w3. The time of all products against that without.
double repeated_products(const PublishedRun& run) {
  const auto size = [&](const char* field) {
    return static_cast<double>(override_value(run, field));
  };
  const double hidden = size("model.hidden_size"), wide = hidden * size("model.ffn_hidden_size");
  const double keys = hidden * size("model.num_query_groups") * size("model.kv_channels");
  const double square = hidden * hidden, layers = size("model.num_layers");
  const double all =
      layers * (2 * square + 2 * keys + 3 * wide) + hidden * size("model.vocab_size");
  return 1 + layers * (square + keys + wide) / (3 * all);
}

/// Megatron-Bridge 26.06.01 computes gradients of experts in MXFP8 in one kernel of cuDNN's front
/// end 1.24.0, which CUTLASS DSL 4.5.0 compiles (both pinned by its v0.5.1): that of the second
/// matrix's input, of the activation, and sums that are those of biases, which this compiler spills
/// to memory. With biases it took nine times as long until that was mended (cudnn-frontend issue
/// 256, pull request 322). A step of gpt-oss-20b on eight GB200, variant v1 (two rows of 8,192
/// tokens a GPU), takes 627.3 ms instead of the 421.1 of 26.06 (Megatron-Bridge issue 5028): so
/// much longer for each byte that the activation's backward reads or writes here.
double activation_gradient_delay(const PublishedRow& row, const PublishedRun& run) {
  constexpr double kLayers = 24, kRows = 2 * 8192 * 4, kWidth = 2880, kBytes = 10;
  constexpr double kSpilled = (627.3e-3 - 421.1e-3) / (kLayers * kRows * kWidth * kBytes);
  // The family of this table whose experts have biases.
  const bool biases = std::find(run.overrides.begin(), run.overrides.end(),
                                "model.family=gpt_oss") != run.overrides.end();
  return biases && row.text("framework") == "Megatron-Bridge 26.06.01" &&
                 row.text("precision") == "fp8-mx"
             ? kSpilled
             : 0;
}

/// Transformer Engine attends in FP8 with sinks from 2.16 and cuDNN 9.21 on
/// (get_attention_backend), if asked for, as by Megatron-Bridge's presets in MXFP8 from 26.06 on
/// (fp8_dot_product_attention). cuDNN's backward in FP8 computes what windows leave out as well:
/// for rows twice as long it takes four times as long (cudnn-frontend 1.23.0,
/// sdpa_benchmark_training/results/gpt_oss).
bool attends_past_windows(const PublishedRow& row) {
  return bridge_release(row) >= 2606 && row.text("precision") == "fp8-mx";
}

/// Codes whose passes over memory are fused by a compiler or by hand, as ours are.
bool has_fused_passes(const PublishedRow& row) {
  return row.notes_mention("torch.compile") ||
         starts_with_any(row.text("framework"), {"MaxText", "Paxml", "llmq"});
}

}  // namespace

int64_t bridge_release(const PublishedRow& row) {
  constexpr std::string_view kName = "Megatron-Bridge ";
  const std::string framework = row.text("framework");
  if (!framework.starts_with(kName) || framework.size() < kName.size() + 5) return 0;
  const std::string release = framework.substr(kName.size());
  const auto digit = [&](size_t i) { return std::isdigit(static_cast<unsigned char>(release[i])); };
  if (!digit(0) || !digit(1) || release[2] != '.' || !digit(3) || !digit(4)) return 0;
  return std::stoll(release.substr(0, 2) + release.substr(3, 2));
}

std::string graphs_of(const PublishedRow& row) {
  const std::string stated = lower_case(row.text("cuda_graph"));
  const bool unsaid = stated.empty() && bridge_release(row) >= 2606 && expert_ranks(row) > 1 &&
                      row.text("precision") == "fp8-mx";
  return unsaid ? "full_iteration" : stated;
}

void add_kernels(const PublishedRow& row, PublishedRun& run) {
  add_graphs(row, run);
  if (has_launches_of_each_expert(row) && !graphs_of(row).starts_with("full_iteration"))
    run.expert_product_seconds = kExpertProductSeconds;
  if (has_launches_of_each_op(row))
    run.launch_seconds = row.text("hardware").starts_with("GB") ? kLaunchOnGrace : kLaunchOnXeon;
  run.library_attention = has_library_attention(row);
  if (attends_past_windows(row))
    std::erase_if(run.overrides, [](const std::string& text) {
      return text.starts_with("model.window_size=") || text.starts_with("model.window_layers=");
    });
  if (row.text("framework").starts_with("llm-foundry") && row.text("hardware").starts_with("H"))
    run.attention_share = kAmpereAttentionOnHopper;
  if (row.text("framework").starts_with("InternEvo")) run.attention_share = kFirstFlashAttention;
  if (of_torchtitan(row) && row.text("recompute") == "selective" && row.text("precision") == "bf16")
    run.product_repeats = repeated_products(run);
  run.activation_gradient_delay = activation_gradient_delay(row, run);
  if (has_fused_passes(row)) run.extra_passes = 1;
}

}  // namespace viaduct
