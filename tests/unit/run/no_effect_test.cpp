// Notes about settings without effect in a run.

#include "run/no_effect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "data/indexed_dataset_writer.h"
#include "run/resolved_run.h"
#include "run/rules/rules.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace viaduct {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> notes(const Overrides& overrides) {
  return setup_of(tiny_run() + overrides).notes;
}

const Overrides kTp{"dist.ranks=2", "model.tensor_model_parallel_size=2"};

// A name that is known and not implemented has no value to compare with.
TEST(NoEffect, WhatIsNotImplementedIsNotAsked) {
  const Overrides simulated{"dist.device=sim", "dist.cluster=dgx-h100"};
  EXPECT_THAT(
      notes(simulated + Overrides{"dataset.num_workers=6", "dataset.pin_memory=false"}),
      Not(Contains(AllOf(HasSubstr("dataset.num_workers"), HasSubstr("dist.device = sim")))));
  EXPECT_THAT(notes(simulated + Overrides{"dataset.random_seed=6"}),
              Contains(AllOf(HasSubstr("dataset.random_seed"), HasSubstr("dist.device = sim"))));
}

TEST(NoEffect, InVirtualTimeFieldsOfValuesDoNothing) {
  const auto is_said = [](const std::string& setting) {
    const auto of_field =
        AllOf(HasSubstr(setting.substr(0, setting.find('='))),
              HasSubstr("no effect here: dist.device = sim: nothing is computed, read or saved"));
    return testing::Matches(Contains(of_field))(
        notes({"dist.device=sim", "dist.cluster=dgx-h100", setting}));
  };
  for (const char* of_values :
       {"train.exit_interval=3", "train.exit_signals=[SIGUSR1]", "dist.threads_per_rank=3",
        "dist.distributed_timeout_minutes=3", "checkpoint.load_rng=false",
        "dataset.fim_spm_rate=0.25", "dataset.split=[1,1,1]", "dataset.packing_split=true",
        "dataset.short_sequence_probability=0.5", "logger.timing_log_level=1",
        "validation.eval_interval=7", "profiling.record_shapes=true", "rng.seed=7",
        "tensor_inspect.interval=7"}) {
    EXPECT_TRUE(is_said(of_values)) << of_values;
  }
  for (const char* acts :
       {"train.global_batch_size=8", "dist.nvlink_domain_size=1", "dataset.sequence_length=32",
        "logger.log_interval=7", "logger.log_throughput=false"}) {
    EXPECT_FALSE(is_said(acts)) << acts;
  }
}

TEST(NoEffect, ConversationsGiveRowsTheirDocumentsInVirtualTime) {
  RunConfig config;
  const Schema schema = run_schema(config);
  const auto needs_values = [&](const char* name) { return schema.find(name)->needs_values(); };
  for (const bool conversations : {false, true}) {
    config.dataset.packing.conversations = conversations;
    for (const char* name : {"dataset.blend", "dataset.blend_per_split", "dataset.split",
                             "dataset.packed_sequence_size", "dataset.packing_algorithm"})
      EXPECT_EQ(needs_values(name), !conversations) << name;
    EXPECT_TRUE(needs_values("dataset.pad_cu_seqlens"));
    EXPECT_FALSE(needs_values("dataset.sequence_length"));
  }
}

TEST(NoEffect, APlainRunSaysNothing) {
  EXPECT_THAT(notes({"validation.eval_iters=1"}), IsEmpty());
}

// A misspelt name would never be asked for; a rule of one folder's settings belongs to its field.
TEST(NoEffect, TablesNameFields) {
  RunConfig config;
  const Schema schema = run_schema(config);
  for (const Topic& topic : topics()) {
    for (const NoEffectRule& rule : topic.idle)
      for (const std::string_view name : rule.fields) EXPECT_NE(schema.find(name), nullptr) << name;
  }
}

// Rules of a group of fields end with it.
TEST(NoEffect, WhatComesBehindExpertsActsWithoutThem) {
  EXPECT_THAT(notes({"model.qk_layernorm=true", "model.qk_layernorm_per_head=false"}), IsEmpty());
  EXPECT_THAT(notes({"model.moe_router_topk=1", "model.moe_z_loss_coeff=0.1"}),
              ElementsAre("model.moe_router_topk, model.moe_z_loss_coeff have no effect here: "
                          "model.num_moe_experts = null"));
}

TEST(NoEffect, OneLineAReason) {
  EXPECT_THAT(notes({"model.tp_comm_overlap_rs_dgrad=true", "model.cp_comm_type=a2a+p2p",
                     "comm_overlap.tp_comm_overlap_cfg={qkv_fprop: {aggregate: false}}"}),
              ElementsAre("comm_overlap.tp_comm_overlap_cfg, model.tp_comm_overlap_rs_dgrad have "
                          "no effect here: model.tensor_model_parallel_size = 1",
                          "model.cp_comm_type has no effect here: model.context_parallel_size = "
                          "1"));
}

TEST(NoEffect, ABulkMethodIsWhatTheGemmsThatAllowItHaveAnyway) {
  EXPECT_THAT(notes(kTp + Overrides{"comm_overlap.method=bulk"}),
              Contains(AllOf(HasSubstr("comm_overlap.method has no effect here"),
                             HasSubstr("does the same by default"))));
  EXPECT_THAT(notes(kTp + Overrides{"comm_overlap.method=ring_exchange"}),
              Not(Contains(HasSubstr("comm_overlap.method"))));
}

// What a schedule turns off is compared as the run has it.
TEST(NoEffect, AWeightGradientThatWaitsHidesNothingAnyway) {
  const Overrides waits = kTp + Overrides{"dist.ranks=4", "model.pipeline_model_parallel_size=2",
                                          "model.pipeline_schedule=zero_bubble"};
  const auto of_switch = Contains(AllOf(HasSubstr("model.tp_comm_bulk_wgrad has no effect here"),
                                        HasSubstr("does the same by default")));
  EXPECT_THAT(notes(waits + Overrides{"model.tp_comm_bulk_wgrad=false"}), of_switch);
  EXPECT_THAT(notes(kTp + Overrides{"model.tp_comm_bulk_wgrad=false"}), Not(of_switch));
}

// The settings of kernels in a table are named where the table itself has an effect.
TEST(NoEffect, SettingsOfKernelsInATable) {
  const Overrides table{"comm_overlap.tp_comm_overlap_cfg={fc1_fprop: {num_sm: 8}}"};
  EXPECT_THAT(notes(kTp + table), Contains(HasSubstr("tp_comm_overlap_cfg.fc1_fprop.num_sm has")));
  EXPECT_THAT(notes(table), ElementsAre(AllOf(HasSubstr("tp_comm_overlap_cfg has no effect here"),
                                              HasSubstr("tensor_model_parallel_size = 1"))));
}

TEST(NoEffect, NormsOfQueriesAndKeysThatAreNotThere) {
  EXPECT_THAT(notes({"model.qk_layernorm_per_head=false", "model.qk_layernorm_own_weights=true"}),
              ElementsAre("model.qk_layernorm_own_weights, model.qk_layernorm_per_head have no "
                          "effect here: model.qk_layernorm = false"));
  EXPECT_THAT(notes({"model.qk_layernorm_per_head=false", "model.qk_layernorm=true"}), IsEmpty());
}

TEST(NoEffect, CopiesAreComparedWhereThereAreSome) {
  const std::string compare = "train.check_weight_hash_across_dp_replicas_interval=1";
  EXPECT_THAT(notes({compare}), ElementsAre(HasSubstr("_interval has no effect here: data-parallel "
                                                      "ranks")));
  EXPECT_THAT(notes(kTp + Overrides{compare}), ElementsAre(HasSubstr("weights have no copies")));
  EXPECT_THAT(notes({compare, "dist.ranks=2"}), IsEmpty());
}

TEST(NoEffect, BalancingWithoutALossNeedsNoCoefficient) {
  const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2"};
  EXPECT_THAT(notes(experts + Overrides{"model.moe_router_load_balancing_type=seq_aux_loss"}),
              Contains(HasSubstr("moe_router_load_balancing_type has no effect here")));
  EXPECT_THAT(notes(experts + Overrides{"model.moe_router_load_balancing_type=sinkhorn"}),
              Not(Contains(HasSubstr("moe_router_load_balancing_type"))));
}

TEST(NoEffect, ALimitThatNoRankReaches) {
  const Overrides flex{"model.family=qwen3_moe", "model.num_moe_experts=4",
                       "model.moe_router_topk=2", "model.moe_token_dispatcher_type=flex"};
  const std::string factor = "model.moe_expert_rank_capacity_factor=";
  const auto limit = HasSubstr("moe_expert_rank_capacity_factor");
  EXPECT_THAT(notes(flex + Overrides{factor + "0.99"}), Not(Contains(limit)));
  EXPECT_THAT(notes(flex + Overrides{factor + "1"}),
              Contains(HasSubstr("tokens have at most 1 times an equal share of their choices "
                                 "among the 4 experts of a rank")));
  const Overrides two = flex + Overrides{"dist.ranks=2", "model.expert_model_parallel_size=2"};
  EXPECT_THAT(notes(two + Overrides{factor + "1.99"}), IsEmpty());
  EXPECT_THAT(notes(two + Overrides{factor + "2"}),
              ElementsAre(HasSubstr("at most 2 times an equal share of their choices among the 2 "
                                    "experts of a rank")));
  // Of 4 ranks each has one expert, so a token has one choice of two there.
  EXPECT_THAT(notes(flex + Overrides{"dist.ranks=4", "model.expert_model_parallel_size=4",
                                     "train.global_batch_size=8", factor + "2"}),
              ElementsAre(HasSubstr("at most 2 times an equal share of their choices among the 1 "
                                    "expert of a rank")));
  const std::string policy = "model.moe_token_drop_policy=position";
  EXPECT_THAT(notes(two + Overrides{factor + "1", policy}), IsEmpty());
  EXPECT_THAT(notes(two + Overrides{factor + "2", policy}),
              Contains(AllOf(HasSubstr("moe_token_drop_policy"), limit)));
  EXPECT_THAT(notes(two + Overrides{policy}),
              ElementsAre(HasSubstr("moe_expert_rank_capacity_factor are null")));
}

TEST(NoEffect, AttentionThatALibraryDoesNotCompute) {
  RunSetup setup = setup_of(tiny_run() + Overrides{"mixed_precision=bf16_mixed"});
  setup.config.model.attention_backend = AttentionBackend::fused;
  ConfigOutcome outcome;
  outcome.given["model.attention_backend"] = Value{};
  const auto said = [&] { return settings_without_effect(setup.config, outcome); };
  EXPECT_THAT(said(), IsEmpty());
  setup.config.model.window_size = std::optional<int64_t>(8);
  EXPECT_THAT(said(), ElementsAre(AllOf(HasSubstr("model.attention_backend has no effect here"),
                                        HasSubstr("no attention with model.window_size"))));
  setup.config.model.attn_logit_softcapping = std::optional<double>(30);
  EXPECT_THAT(said(), ElementsAre(HasSubstr("with model.attn_logit_softcapping here")));
  setup.config.model.attention_dropout = 0.1;
  EXPECT_THAT(said(), ElementsAre(HasSubstr("with model.attention_dropout here")));
}

TEST(NoEffect, RotaryScalingBehindTheLongestRow) {
  EXPECT_THAT(notes({"model.rope_scaling={rope_type: dynamic, factor: 4.0}"}),
              Contains(AllOf(HasSubstr("model.rope_scaling has no effect here"),
                             HasSubstr("dynamic scaling begins behind them"))));
  EXPECT_THAT(notes({"model.family=hunyuan_v1_dense",
                     "model.rope_scaling={rope_type: dynamic, factor: 1.0, alpha: 50.0}"}),
              Not(Contains(HasSubstr("model.rope_scaling"))));
}

TEST(NoEffect, AFactorThatBeginsBehindTheLongestRow) {
  EXPECT_THAT(notes({"model.seq_length=32", "model.attention_temperature_scale=0.1"}),
              ElementsAre("model.attention_temperature_scale has no effect here: rows of 32 tokens "
                          "end before its first step, at 32"));
  EXPECT_THAT(notes({"model.seq_length=32", "model.attention_temperature_scale=0.1",
                     "model.attention_temperature_length=31"}),
              IsEmpty());
}

TEST(NoEffect, EvaluationsWithoutData) {
  const TemporaryFolder folder;
  const std::string data = (folder / "a").string();
  IndexedDatasetWriter writer(data, TokenType::uint16);
  writer.add_document(std::vector<int32_t>(100, 9));
  writer.finish();
  const auto said = [](const Overrides& more) {
    return notes(Overrides{"dataset.mock=false", "validation.eval_iters=2"} + more);
  };
  const Overrides all{"dataset.blend=[" + data + "]", "dataset.split=1"};
  EXPECT_THAT(said(all), Contains("validation.eval_iters has no effect here: dataset.split = 1 "
                                  "leaves validation no data"));
  EXPECT_THAT(said({"dataset.blend_per_split=[[" + data + "], null, [" + data + "]]"}),
              Contains("validation.eval_iters has no effect here: dataset.blend_per_split has no "
                       "data sets for validation"));
  EXPECT_THAT(
      said(all + Overrides{"validation.eval_interval=3"}),
      Contains(HasSubstr("validation.eval_interval, validation.eval_iters have no effect")));
  EXPECT_THAT(said(all + Overrides{"dataset.split=9,1"}), Not(Contains(HasSubstr("validation."))));
}

TEST(NoEffect, PartsOfSwitchesThatAreOff) {
  EXPECT_THAT(notes({"model.attention_temperature_length=8", "model.qk_layernorm_after_rope=true"}),
              AllOf(Contains(HasSubstr("model.attention_temperature_length has no effect here: "
                                       "model.attention_temperature_scale is null")),
                    Contains(HasSubstr("model.qk_layernorm_after_rope has no effect here: "
                                       "model.qk_layernorm = false"))));
  EXPECT_THAT(notes({"model.family=bloom", "model.ffn_hidden_size=128",
                     "model.qk_layernorm_after_rope=true"}),
              Contains(HasSubstr("model.qk_layernorm_after_rope has no effect here: "
                                 "model.position_embedding_type = alibi")));
}

TEST(NoEffect, SettingsOfGpusOnTheCpu) {
  const std::vector<std::pair<std::string, std::string>> expected{
      {"dist.vboost=1", "has no GPU whose slider could be moved"},
      {"dist.vboost=0", "has no GPU whose slider could be moved"},
      {"dist.distributed_backend=gloo", "carries tensors between threads or by MPI"},
      {"model.pipeline_model_parallel_comm_backend=ucc", "carries tensors between threads"},
      {"dist.high_priority_stream_groups=[tp]", "has no streams with priorities"},
      {"model.deterministic_mode=true", "everything else has one order of sums anyway"},
      {"profiling.nsys_trace=[cuda]", "profiling.use_nsys_profiler = false"},
      {"dist.numactl=false", "ranks of the cpu are not bound unless it is true"}};
  for (const auto& [setting, why] : expected) {
    const std::string name = setting.substr(0, setting.find('='));
    EXPECT_THAT(notes({setting}), ElementsAre(AllOf(HasSubstr(name), HasSubstr(why)))) << setting;
  }
  EXPECT_THAT(notes({"dist.numactl=true"}), IsEmpty());
}

TEST(NoEffect, SettingsThatHaveNothingToSetHere) {
  for (const char* setting :
       {"model.batch_p2p_sync=false", "model.tp_comm_bootstrap_backend=mpi",
        "model.persist_layer_norm=false", "model.memory_efficient_layer_norm=true",
        "ddp.fsdp_manual_registration=true", "ddp.megatron_fsdp_version=2",
        "dist.use_decentralized_pg=true"}) {
    const std::string text = setting, name = text.substr(0, text.find('='));
    EXPECT_THAT(notes({setting}), ElementsAre(HasSubstr(name + " has no effect on cpu: ")));
  }
}

TEST(NoEffect, RoutersOfTheFormatOfActivations) {
  const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.moe_router_dtype=fp32"};
  EXPECT_THAT(notes(experts), ElementsAre("model.moe_router_dtype has no effect here: "
                                          "mixed_precision.recipe = fp32: activations have this "
                                          "format, or a wider one"));
  EXPECT_THAT(notes(experts + Overrides{"model.moe_router_dtype=fp64"}), IsEmpty());
  EXPECT_THAT(notes(experts + Overrides{"mixed_precision=bf16_mixed"}), IsEmpty());
}

TEST(NoEffect, RandomChoicesAreLoud) {
  testing::internal::CaptureStderr();
  setup_of(tiny_run("qwen3_moe") + Overrides{"model.num_moe_experts=4", "model.moe_router_topk=2",
                                             "model.moe_router_force_load_balancing=true"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("experts are chosen at random, and the model does not learn to route"));
}

TEST(NoEffect, ABiasThatIsSetHasNoStep) {
  const Overrides experts{"model.family=qwen3_moe", "model.num_moe_experts=4",
                          "model.moe_router_topk=2", "model.moe_router_score_function=sigmoid",
                          "model.moe_router_pre_softmax=false"};
  const Overrides quantile{"model.moe_router_load_balancing_type=quantile_balancing"};
  EXPECT_THAT(
      notes(experts + quantile + Overrides{"model.moe_router_bias_update_rate=0.1"}),
      ElementsAre("model.moe_router_bias_update_rate has no effect here: "
                  "model.moe_router_load_balancing_type = quantile_balancing sets the bias"));
  EXPECT_THAT(notes(experts + quantile + Overrides{"model.moe_router_qb_num_bins=10"}), IsEmpty());
  EXPECT_THAT(notes(experts + Overrides{"model.moe_router_qb_num_bins=10"}),
              ElementsAre("model.moe_router_qb_num_bins has no effect here: "
                          "model.moe_router_load_balancing_type is not quantile_balancing"));
}

TEST(NoEffect, FiguresOfLayersNeedRoutersAndTensorBoard) {
  const Overrides layers{"logger.moe_per_layer_logging=true"};
  EXPECT_THAT(notes(layers), Contains(HasSubstr("model.num_moe_experts = null")));
  EXPECT_THAT(notes(layers + Overrides{"model.family=qwen3_moe", "model.num_moe_experts=4",
                                       "model.moe_router_topk=2", "logger.tensorboard_dir=null"}),
              Contains(HasSubstr("logger.tensorboard_dir is null")));
}

TEST(NoEffect, ShardsAndFormatsThatAreThereAnyway) {
  EXPECT_THAT(notes(kTp + Overrides{"model.tensor_parallel_num_weight_shards=2"}),
              ElementsAre("model.tensor_parallel_num_weight_shards has no effect here: it is "
                          "model.tensor_model_parallel_size"));
  const Overrides full{"dist.ranks=2", "mixed_precision=bf16_mixed",
                       "ddp.data_parallel_sharding_strategy=optim_grads_params"};
  EXPECT_THAT(notes(full + Overrides{"ddp.megatron_fsdp_grad_comm_dtype=fp32"}),
              ElementsAre("ddp.megatron_fsdp_grad_comm_dtype has no effect here: main gradients "
                          "have this format"));
  EXPECT_THAT(notes(full + Overrides{"ddp.megatron_fsdp_grad_comm_dtype=bf16"}), IsEmpty());
}

TEST(NoEffect, RecomputeOfTheOtherGranularity) {
  EXPECT_THAT(notes({"model.recompute_method=block", "model.recompute_num_layers=1",
                     "model.recompute_modules=[mlp]"}),
              ElementsAre("model.recompute_method, model.recompute_num_layers have no effect here: "
                          "model.recompute_granularity is not full",
                          "model.recompute_modules has no effect here: "
                          "model.recompute_granularity is not selective"));
  EXPECT_THAT(notes({"model.recompute_granularity=selective", "model.recompute_method=block"}),
              ElementsAre("model.recompute_method has no effect here: model.recompute_granularity "
                          "is not full"));
  EXPECT_THAT(notes({"model.recompute_granularity=selective", "model.recompute_modules=[]"}),
              ElementsAre("model.recompute_granularity has no effect here: model.recompute_modules "
                          "is empty"));
}

TEST(NoEffect, OffloadThatIsOff) {
  EXPECT_THAT(
      notes({"model.cpu_offloading_num_layers=1", "model.offload_modules=[mlp]",
             "memory.offload_path=/nowhere"}),
      ElementsAre("memory.offload_path has no effect here: nothing is offloaded",
                  "model.cpu_offloading_num_layers has no effect here: model.cpu_offloading "
                  "is off",
                  "model.offload_modules has no effect here: "
                  "model.fine_grained_activation_offloading is off"));
  EXPECT_THAT(notes({"model.cpu_offloading=true"}),
              ElementsAre("model.cpu_offloading has no effect here: "
                          "model.cpu_offloading_num_layers = 0"));
  EXPECT_THAT(
      notes({"model.recompute_granularity=selective",
             "model.num_microbatches_with_partial_activation_checkpoints=1"}),
      ElementsAre("model.num_microbatches_with_partial_activation_checkpoints has no effect "
                  "here: one pipeline stage holds one micro-batch at a time"));
}

TEST(NoEffect, WeightDecayThatTheScheduleSays) {
  const Overrides schedule{"scheduler.start_weight_decay=0.1", "scheduler.end_weight_decay=0.1",
                           "optimizer.weight_decay=0"};
  EXPECT_THAT(notes(schedule), ElementsAre("optimizer.weight_decay has no effect here: "
                                           "scheduler.start_weight_decay and end_weight_decay give "
                                           "it"));
}

TEST(NoEffect, GraphsWhereEachStepMeasuresItsOperands) {
  const auto notes_on_gpu = [](const std::string& interval) {
    RunConfig defaults;
    defaults.cuda_target = CudaTarget::sm_90a;  // as of a dry run, without a GPU
    return prepare_run(
               load_run_config("",
                               tiny_run() + Overrides{"mixed_precision=bf16_with_fp8_"
                                                      "current_scaling_mixed",
                                                      "model.cuda_graph_impl=full_iteration",
                                                      "tensor_inspect.enabled=true",
                                                      "logger.log_interval=" + interval},
                               defaults))
        .notes;
  };
  const auto of_graphs = Contains(HasSubstr("model.cuda_graph_impl has no effect here: each step"));
  EXPECT_THAT(notes_on_gpu("1"), of_graphs);
  EXPECT_THAT(notes_on_gpu("2"), Not(of_graphs));
}

// A run continues with its own config.yaml, which has every field.
TEST(NoEffect, WhatTheRunWouldHaveAnywayAsksForNothing) {
  const RunSetup setup = setup_of(tiny_run() + Overrides{"validation.eval_iters=1"});
  TemporaryFolder folder;
  write_file_atomically(folder / "config.yaml", to_yaml(setup.config));
  EXPECT_THAT(prepare_run(load_run_config(folder / "config.yaml", {})).notes, IsEmpty());
}

// tp_comm_overlap_rs_dgrad excludes the two bulk switches, which are on by default and are in the
// file nevertheless.
TEST(NoEffect, WhatReplacesDefaultsCanBeReadAgain) {
  TemporaryFolder folder;
  for (const char* setting :
       {"model.tp_comm_overlap_rs_dgrad=true",
        "comm_overlap.tp_comm_overlap_cfg=userbuffers_fp8_h100_h8192_tp4_mbs1_seqlen8192"}) {
    const RunSetup setup = setup_of(tiny_run() + kTp + Overrides{setting});
    write_file_atomically(folder / "config.yaml", to_yaml(setup.config));
    const RunSetup again = prepare_run(load_run_config(folder / "config.yaml", {}));
    EXPECT_EQ(to_yaml(again.config), to_yaml(setup.config));
    EXPECT_EQ(resolve_run(again.config, again.model).layers.overlap,
              resolve_run(setup.config, setup.model).layers.overlap);
  }
}

}  // namespace
}  // namespace viaduct
