#pragma once
// Shared parts of the tables of the walk over the configuration: settings of the runs of their
// cases, and the tables.

#include "support/field_walk.h"

namespace viaduct::test::field_walk {

inline constexpr Shows kNumbers = Shows::numbers, kFiles = Shows::files, kNotes = Shows::notes,
                       kSaid = Shows::said, kRecord = Shows::record;

inline const Overrides kBf16{"mixed_precision=bf16_mixed"};
inline const Overrides kFp16{"mixed_precision=fp16_mixed"};
inline const Overrides kFp8{"mixed_precision=bf16_with_mxfp8_mixed"};
inline const Overrides kCurrentFp8{"mixed_precision=bf16_mixed", "mixed_precision.fp8=hybrid"};
inline const Overrides kFp4{"mixed_precision=bf16_with_nvfp4_mixed"};
inline const Overrides kDelayedFp8{"mixed_precision=bf16_with_fp8_delayed_scaling_mixed"};
inline const Overrides kGpt2{"model.family=gpt2"};
inline const Overrides kBloom{"model.family=bloom", "model.ffn_hidden_size=128"};
inline const Overrides kT5{"model.family=t5"};
inline const Overrides kLlava{"model.hf_config=$LLAVA"};
inline const Overrides kMoe{"model.family=qwen3_moe", "model.num_moe_experts=4",
                            "model.moe_router_topk=2"};
inline const Overrides kSigmoidMoe = kMoe + Overrides{"model.moe_router_score_function=sigmoid",
                                                      "model.moe_router_pre_softmax=false"};
inline const Overrides kSharedMoe{"model.family=qwen2_moe", "model.num_moe_experts=4",
                                  "model.moe_shared_expert_intermediate_size=32"};
inline const Overrides kGptOss{"model.family=gpt_oss", "model.num_moe_experts=4",
                               "model.moe_router_topk=2"};
inline const Overrides kLatent{"model.family=deepseek_v2",
                               "model.num_moe_experts=4",
                               "model.moe_router_topk=2",
                               "model.moe_ffn_hidden_size=16",
                               "model.moe_shared_expert_intermediate_size=32",
                               "model.q_lora_rank=24",
                               "model.kv_lora_rank=16",
                               "model.qk_head_dim=12",
                               "model.qk_pos_emb_head_dim=8",
                               "model.v_head_dim=10"};
inline const Overrides kTp{"dist.ranks=2", "model.tensor_model_parallel_size=2"};
inline const Overrides kCp{"dist.ranks=2", "model.context_parallel_size=2"};
inline const Overrides kPp{"dist.ranks=2", "model.pipeline_model_parallel_size=2",
                           "model.num_layers=4", "train.global_batch_size=8"};
inline const Overrides kVpp = kPp + Overrides{"model.virtual_pipeline_model_parallel_size=2"};
inline const Overrides kDp{"dist.ranks=2"};
inline const Overrides kFourDp{"dist.ranks=4", "train.global_batch_size=8"};
inline const Overrides kSharded =
    kDp + Overrides{"ddp.data_parallel_sharding_strategy=optim_grads_params", "model.num_layers=4"};
inline const Overrides kNarrow = kDp + kBf16 + Overrides{"ddp.grad_reduce_in_fp32=false"};
inline const Overrides kData{"dataset.mock=false", "model.vocab_size=1024",
                             "dataset.blend=[$CORPUS_A]", "dataset.split=90,10,0"};
inline const Overrides kText{"tokenizer.tokenizer_model=$TOKENIZER", "model.vocab_size=2048"};
inline const Overrides kOffloads{"model.fine_grained_activation_offloading=true",
                                 "model.offload_modules=[mlp]",
                                 "model.min_offloaded_tensor_size=0"};
inline const Overrides kResume{"checkpoint.load=$RUN", "train.train_iters=4"};
inline const Overrides kTrace{"profiling.trace=true", "profiling.profile_step_start=1",
                              "profiling.profile_step_end=2"};

inline const Overrides kLora{"peft.scheme=lora", "peft.dim=4"};

inline constexpr const char* kOnlyResumed = "says how a run goes on, and this one starts anew";

// Each function covers one or two files; the lines of a section are in the order of `viaduct
// knobs`.
std::vector<FieldCase> model_cases();
std::vector<FieldCase> fusion_cases();
std::vector<FieldCase> layout_cases();
std::vector<FieldCase> data_parallel_cases();
std::vector<FieldCase> train_cases();
std::vector<FieldCase> optimizer_cases();
std::vector<FieldCase> environment_cases();
std::vector<FieldCase> data_cases();
std::vector<FieldCase> checkpoint_cases();
std::vector<FieldCase> variable_cases();
std::vector<FieldCase> graph_cases();
std::vector<FieldCase> adapter_cases();
std::vector<FieldCase> logger_cases();
/// Fields that the catalogue lists as planned: a case may exist before its field is built, and is
/// used from then on.
std::vector<FieldCase> coming_cases();

}  // namespace viaduct::test::field_walk
