#include "support/gpu_models.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "support/golden.h"
#include "support/layout_run.h"
#include "support/paths.h"

namespace viaduct::test {
namespace {

const Overrides kBf16{"mixed_precision=bf16_mixed"}, kNone,
    kUnfused{"model.attention_backend=unfused"}, kFused{"model.attention_backend=fused"};

const Overrides kTwoExperts{"dist.ranks=2", "model.expert_model_parallel_size=2"},
    kFlex{"model.moe_token_dispatcher_type=flex"};

/// Mixtures of experts in FP8 and FP4, which amplifies last bits more. Every token chooses all
/// experts, so that no rounding changes a choice.
GpuModel experts(const std::string& name, const std::string& recipe, const Overrides& more = {},
                 int capability = 90, double limit = 0.25) {
  return {"mixtral_" + name,
          "mixtral",
          Overrides{"mixed_precision=" + recipe, "model.moe_router_topk=4"} + more,
          limit,
          false,
          {},
          capability,
          limit > 0.25};
}

/// A reference adapter on its model. Tiles are what products of the cpu alone read.
GpuModel adapted(const std::string& adapter, const std::string& base, const std::string& name = "",
                 const Overrides& more = {}, double limit = 2e-5) {
  return {adapter + name, base,
          Overrides{"peft.adapter=" + test_data("golden/" + adapter + "/adapter").string(),
                    "model.packed_weights=false"} +
              more,
          limit};
}

/// A new adapter with all that adapters may have, which is dropped by random numbers.
const Overrides kDropped{"peft.scheme=dora", "peft.dim=4", "peft.dropout=0.2",
                         "peft.train=[norm,embed_tokens]"},
    kDroppedAfter{"peft.scheme=lora", "peft.dim=4", "peft.dropout=0.2",
                  "peft.dropout_position=post"};

}  // namespace

void PrintTo(const GpuModel& model, std::ostream* out) {
  *out << model.name;
}

std::vector<GpuModel> gpu_models() {
  return {
      GpuModel{"llama", "llama", kNone, 2e-5, true}, GpuModel{"llama_bf16", "llama", kBf16, 3e-2},
      GpuModel{"llama_unfused", "llama", kUnfused, 2e-5},
      GpuModel{"llama_unfused_bf16", "llama", kBf16 + kUnfused, 3e-2, true},
      GpuModel{"llama_fused", "llama", kBf16, 3e-2, true, kFused},
      GpuModel{"llama_tied_fused_tp2", "llama_tied",
               kBf16 + Overrides{"dist.ranks=2", "model.tensor_model_parallel_size=2"}, 3e-2, false,
               kFused},
      GpuModel{
          "llama_tied_tp2",
          "llama_tied",
          {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"},
          2e-5},
      GpuModel{"llama_tied_dp2", "llama_tied", {"dist.ranks=2", "train.micro_batch_size=1"}, 2e-5},
      GpuModel{"t5", "t5", kNone, 2e-5}, GpuModel{"t5_v1_1_bf16", "t5_v1_1", kBf16, 5e-2},
      GpuModel{"llama_fp8", "llama", {"mixed_precision=bf16_with_fp8_current_scaling_mixed"}, 0.25},
      GpuModel{"llama_fp8_delayed",
               "llama",
               {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"},
               0.25},
      GpuModel{"llama_fp8_attention",
               "llama",
               {"mixed_precision=bf16_with_fp8_current_scaling_mixed",
                "mixed_precision.fp8_dot_product_attention=true",
                "mixed_precision.fp8_multi_head_attention=true"},
               0.25},
      GpuModel{"gpt2_fp8_attention_cp2",
               "gpt2",
               {"mixed_precision=bf16_with_fp8_delayed_scaling_mixed",
                "mixed_precision.fp8_dot_product_attention=true", "dist.ranks=2",
                "model.context_parallel_size=2"},
               0.25},
      GpuModel{"gemma2", "gemma2", kNone, 2e-5}, GpuModel{"olmo3", "olmo3", kNone, 2e-5},
      GpuModel{"glm4", "glm4", kNone, 2e-5}, GpuModel{"granite", "granite", kNone, 2e-5},
      GpuModel{"gpt_neox", "gpt_neox", kNone, 2e-5}, GpuModel{"phi", "phi", kNone, 2e-5},
      GpuModel{"cohere2", "cohere2", kNone, 2e-5},
      GpuModel{"deepseek_v3", "deepseek_v3", kNone, 2e-5},
      GpuModel{"mixtral_ep2", "mixtral", kTwoExperts, 2e-5},
      GpuModel{"mixtral_ep2_flex", "mixtral", kTwoExperts + kFlex, 2e-5},
      // Last bits of a token decide now and then how one of its elements is rounded to E4M3.
      GpuModel{
          "mixtral_ep2_flex_mxfp8", "mixtral",
          kTwoExperts + kFlex +
              Overrides{"model.moe_dispatch_fwd_dtype=mxfp8", "model.moe_combine_bwd_dtype=mxfp8"},
          1e-2},
      GpuModel{
          "mixtral_ep4_by_domain", "mixtral",
          kFlex + Overrides{"dist.ranks=4", "model.tensor_model_parallel_size=2",
                            "model.sequence_parallel=true", "model.expert_model_parallel_size=4",
                            "model.expert_tensor_parallel_size=1", "dist.nvlink_domain_size=2"},
          2e-5},
      GpuModel{
          "llama_pp2", "llama", {"dist.ranks=2", "model.pipeline_model_parallel_size=2"}, 2e-5},
      GpuModel{"t5_encoder_before_chunks",
               "t5",
               {"dist.ranks=3", "model.encoder_pipeline_model_parallel_size=1",
                "model.pipeline_model_parallel_size=2",
                "model.virtual_pipeline_model_parallel_size=2", "train.micro_batch_size=1"},
               2e-5},
      GpuModel{"llama_cp2", "llama", {"dist.ranks=2", "model.context_parallel_size=2"}, 2e-5},
      GpuModel{"gpt2", "gpt2", kNone, 2e-5}, GpuModel{"qwen2_moe", "qwen2_moe", kNone, 2e-5, true},
      experts("fp8", "bf16_with_fp8_current_scaling_mixed"),
      experts("fp8_delayed", "bf16_with_fp8_delayed_scaling_mixed"),
      experts("fp8_blocks", "bf16_with_fp8_subchannel_scaling_mixed"),
      experts("mxfp8", "bf16_with_mxfp8_mixed", {}, 100),
      experts("nvfp4", "bf16_with_nvfp4_mixed", {}, 100, 0.5),
      experts("fp8_padded", "bf16_with_fp8_current_scaling_mixed",
              {"model.moe_router_padding_for_quantization=true"}),
      experts("fp8_ep2", "bf16_with_fp8_current_scaling_mixed",
              {"dist.ranks=2", "model.expert_model_parallel_size=2"}),
      adapted("lora_llama", "llama"), adapted("dora_llama", "llama"),
      // The cpu adds terms before it rounds, the GPU afterwards.
      adapted("lora_llama", "llama", "_bf16", kBf16, 7e-2),
      adapted(
          "dora_llama", "llama", "_tp2",
          {"dist.ranks=2", "model.tensor_model_parallel_size=2", "model.sequence_parallel=true"}),
      adapted("lora_experts", "mixtral", "_ep2", kTwoExperts),
      adapted("dora_llama", "llama", "_fp8_base", kBf16 + Overrides{"peft.base_format=fp8"}, 6e-2),
      adapted("lora_llama", "llama", "_fp8",
              {"mixed_precision=bf16_with_fp8_current_scaling_mixed"}, 0.25),
      GpuModel{"llama_dora_dropout", "llama", kDropped, 2e-5, true},
      GpuModel{"mixtral_lora_dropout_ep2", "mixtral", kTwoExperts + kDroppedAfter, 2e-5}};
}

std::map<std::string, Tensor> probe_gpu_model(const GpuModel& model, const Overrides& more) {
  const auto folder = test_data("golden/" + model.model);
  return probe_layout(folder / "model", folder / "golden.safetensors", false,
                      model.settings + more);
}

void expect_near_cpu(const GpuModel& model, const std::map<std::string, Tensor>& gpu,
                     const std::map<std::string, Tensor>& cpu) {
  double distance = 0, size = 0;
  for (const auto& [name, values] : cpu) {
    const double error = relative_error(gpu.at(name), values);
    if (!model.together || !name.starts_with("grad.")) {
      EXPECT_LE(error, model.limit) << name;
      continue;
    }
    EXPECT_LT(error, 1) << name << ": has nothing of the cpu's";
    double square = 0;
    for (int64_t i = 0; i < values.elements(); ++i)
      square += double{values.data<float>()[i]} * values.data<float>()[i];
    distance += error * error * square;
    size += square;
  }
  EXPECT_LE(std::sqrt(distance), model.limit * std::sqrt(size)) << "all gradients";
}

}  // namespace viaduct::test
