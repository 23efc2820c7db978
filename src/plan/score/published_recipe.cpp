#include "plan/score/published_recipe.h"

#include <fmt/format.h>

#include <algorithm>

namespace viaduct {
namespace {

constexpr int64_t kKibi = 1024, kMebi = 1024 * kKibi;

/// Whether the recipe is known, and asks for nothing of the kind.
bool is_off(const PublishedRow& row, const char* column) {
  return row.text(column) == "0";
}

int64_t cublas_workspace(const PublishedRow& row, bool from_hopper_on) {
  if (const auto stated = row.count("cublas_workspace_mib")) return *stated * kMebi;
  // PyTorch's CUDABlas handle pool: ":4096:2:16:8", and more from Hopper on.
  return from_hopper_on ? 32 * kMebi : 8 * kMebi + 128 * kKibi;
}

/// Megatron-LM's GlobalMemoryBuffer has one buffer for the scores of its own attention, and for
/// what a tensor rank gathers of a sequence before the output layer.
int64_t global_buffer(const PublishedRow& row) {
  constexpr int64_t kElement = 2;
  const int64_t rows = row.count("micro_batch").value_or(1), tp = row.count("tp").value_or(1);
  const int64_t length = row.needed_count("seq_len") / row.count("cp").value_or(1);
  int64_t elements = 0;
  if (row.text("impl") == "local")
    elements = rows * row.needed_count("heads") / tp * length * length;
  if (tp > 1 && row.flag("seq_parallel"))
    elements = std::max(elements, rows * length * row.needed_count("hidden"));
  return elements * kElement;
}

}  // namespace

void add_recipe(const PublishedRow& row, PublishedRun& run) {
  const auto set = [&](std::string_view field, std::string_view value) {
    run.overrides.push_back(fmt::format("{}={}", field, value));
  };
  const auto set_stated = [&](std::string_view field, const char* column) {
    if (const std::string value = row.text(column); !value.empty()) set(field, value);
  };
  set("model.hidden_dropout",
      row.text("hidden_dropout").empty() ? "0.1" : row.text("hidden_dropout"));
  set("model.attention_dropout",
      row.text("attention_dropout").empty() ? "0.1" : row.text("attention_dropout"));
  set("model.cross_entropy_loss_fusion", row.flag("fused_loss") ? "true" : "false");
  // With BF16 gradients are summed in FP32 whatever the recipe says.
  if (row.text("precision") == "fp16") set("ddp.grad_reduce_in_fp32", "false");
  if (is_off(row, "fused_gradients")) set("model.gradient_accumulation_fusion", "false");
  // Megatron-LM's own layers have no other attention.
  if (row.text("impl") == "local" || row.text("attention_backend") == "unfused")
    set("model.attention_backend", "unfused");
  if (row.count("experts").value_or(0) > 0)
    set("model.moe_token_dispatcher_type",
        row.text("dispatcher").empty() ? "allgather" : row.text("dispatcher"));
  set_stated("optimizer.optimizer", "optimizer");
  set_stated("ddp.num_distributed_optimizer_instances", "optimizer_instances");
  set_stated("model.microbatch_group_size_per_vp_stage", "microbatch_group");
  if (!row.text("deferred_head_gradients").empty()) {
    set("comm_overlap.defer_embedding_wgrad_compute", "true");
    set_stated("comm_overlap.wgrad_deferral_limit", "deferred_head_gradients");
  }
  set_stated("model.num_layers_in_first_pipeline_stage", "first_stage_layers");
  set_stated("model.num_layers_in_last_pipeline_stage", "last_stage_layers");
  if (row.flag("fp8_weights")) set("mixed_precision.fp8_param_gather", "true");
}

int64_t library_bytes(const PublishedRow& row, const Gpu& gpu) {
  const bool from_hopper_on = gpu.architecture && *gpu.architecture >= CudaTarget::sm_90a;
  // PyTorch's, one for each thread with a handle: that of the forward, and autograd's of the
  // backward.
  int64_t bytes = 2 * cublas_workspace(row, from_hopper_on);
  if (row.text("impl") == "transformer_engine") {
    const int64_t workspace = from_hopper_on ? 32 * kMebi : 4 * kMebi;
    constexpr int64_t kStreams = 4;  // on which the products of experts run
    bytes += workspace * (row.flag("grouped_gemm") ? 1 + kStreams : 1);
  }
  return bytes + global_buffer(row);
}

}  // namespace viaduct
