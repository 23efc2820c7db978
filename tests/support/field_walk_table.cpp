// Each built field of the configuration: another legal value, the other settings under which it
// matters, and where the effect shows. A new field needs one line (field_walk_slow_test.cpp in
// tests/unit/run fails without it).

#include "support/field_walk_tables.h"

namespace viaduct::test {
namespace field_walk {

std::vector<FieldCase> train_cases() {
  return {
      {"train.train_iters", "4", kNumbers},
      {"train.global_batch_size", "8", kRecord, {}, {"3"}},
      {"train.micro_batch_size", "1", kRecord, {}, {"3"}},
      {"train.exit_interval", "1", kNumbers},
      {"train.exit_duration_in_mins", "1e-9", kNumbers},
      // A learning rate of 1e30 makes weights that are not finite.
      {"train.nan_loss_action",
       "skip",
       kSaid,
       {"optimizer.lr=1e30", "optimizer.clip_grad=0", "train.max_skipped_in_a_row=0"},
       {},
       "says what follows a loss that is not finite, and this one is finite"},
      {"train.max_skipped_in_a_row",
       "1",
       kSaid,
       {"optimizer.lr=1e30", "train.nan_loss_action=skip", "train.train_iters=8"},
       {},
       "limits skipped updates, and none is skipped"},
      {"train.max_skipped_rate",
       "0",
       kSaid,
       {"optimizer.lr=1e30", "train.nan_loss_action=skip", "train.train_iters=8"},
       {},
       "limits skipped updates, and none is skipped"},
      // Weights that do not change: no evaluation is better than the first.
      {"train.early_stopping_patience",
       "1",
       kNumbers,
       {"validation.eval_iters=1", "validation.eval_interval=1", "optimizer.lr=1e-30"}},
      {"train.skip_train", "true", kNumbers, {"validation.eval_iters=1"}},
      {"train.exit_signals",
       "[SIGUSR1]",
       kRecord,
       {},
       {"[SIGKILL]"},
       "says what a signal does, and none comes",
       "cli/train_test.cpp",
       "train.exit_signals=[SIGHUP]"},
      {"validation.eval_interval", "1", kNumbers, {"validation.eval_iters=1"}},
      {"validation.eval_iters", "2", kNumbers},
      {"validation.tasks", "$TASKS", kFiles, kText, {"/no/such/file"}},
      {"validation.sample_prompts", "$PROMPTS", kFiles, kText, {"/no/such/file"}},
      {"validation.sample_tokens", "1", kFiles,
       kText + Overrides{"validation.sample_prompts=$PROMPTS"}},
  };
}

std::vector<FieldCase> optimizer_cases() {
  const Overrides decays{"optimizer.weight_decay=0", "scheduler.end_weight_decay=3",
                         "scheduler.weight_decay_incr_style=linear"};
  const Overrides wsd{"scheduler.lr_decay_style=WSD", "scheduler.lr_wsd_decay_iters=2"};
  const Overrides aware{"mixed_precision=bf16_mixed",
                        "optimizer.use_precision_aware_optimizer=true"};
  return {
      {"optimizer.lr", "2e-2", kNumbers},
      {"optimizer.min_lr", "5e-3", kNumbers, {}, {"1"}},
      {"optimizer.weight_decay", "1", kNumbers},
      {"optimizer.adam_beta1", "0.5", kNumbers},
      {"optimizer.adam_beta2", "0.5", kNumbers},
      {"optimizer.adam_eps", "1e-2", kNumbers},
      {"optimizer.clip_grad", "0.01", kNumbers},
      {"optimizer.optimizer", "sgd", kNumbers},
      {"optimizer.sgd_momentum", "0.5", kNumbers, {"optimizer.optimizer=sgd"}},
      {"optimizer.lion_beta1", "0.5", kNumbers, {"optimizer.optimizer=lion"}},
      {"optimizer.lion_beta2", "0.5", kNumbers, {"optimizer.optimizer=lion"}},
      {"optimizer.muon_momentum", "0.5", kNumbers, {"optimizer.optimizer=muon"}},
      {"optimizer.muon_use_nesterov", "true", kNumbers, {"optimizer.optimizer=muon"}},
      {"optimizer.muon_num_ns_steps", "2", kNumbers, {"optimizer.optimizer=muon"}},
      {"optimizer.muon_scale_mode", "unit_rms_norm", kNumbers, {"optimizer.optimizer=muon"}},
      {"optimizer.muon_extra_scale_factor", "0.2", kNumbers, {"optimizer.optimizer=muon"}},
      {"optimizer.adafactor_decay_rate", "-0.5", kNumbers, {"optimizer.optimizer=adafactor"}},
      {"optimizer.adafactor_clip_threshold", "0.1", kNumbers, {"optimizer.optimizer=adafactor"}},
      {"optimizer.adafactor_eps1", "1e-3", kNumbers, {"optimizer.optimizer=adafactor"}},
      {"optimizer.adafactor_eps2", "2", kNumbers, {"optimizer.optimizer=adafactor"}},
      {"optimizer.adafactor_scale_parameter", "false", kNumbers, {"optimizer.optimizer=adafactor"}},
      {"optimizer.adafactor_relative_step",
       "true",
       kNumbers,
       {"optimizer.optimizer=adafactor", "optimizer.lr=2", "optimizer.min_lr=2",
        "scheduler.lr_warmup_iters=0"}},
      {"optimizer.use_precision_aware_optimizer", "true", kRecord, {"mixed_precision=bf16_mixed"}},
      {"optimizer.main_grads_dtype", "bf16", kRecord,
       aware + Overrides{"ddp.grad_reduce_in_fp32=false"}},
      {"optimizer.main_params_dtype", "fp16", kRecord, aware},
      {"optimizer.exp_avg_dtype", "fp8", kNumbers, aware},
      {"optimizer.exp_avg_sq_dtype", "bf16", kNumbers, aware},
      {"optimizer.store_param_remainders", "false", kRecord, aware},
      {"optimizer.optimizer_cpu_offload",
       "true",
       kRecord,
       {"optimizer.optimizer_offload_fraction=1"}},
      {"optimizer.optimizer_offload_fraction",
       "0.5",
       kRecord,
       {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1"}},
      {"optimizer.overlap_cpu_optimizer_d2h_h2d",
       "true",
       kRecord,
       {"optimizer.optimizer_cpu_offload=true", "optimizer.optimizer_offload_fraction=1",
        "ddp.bucket_size=4096"}},
      {"optimizer.overlap_param_gather_with_optimizer_step", "true", kRecord,
       kVpp + Overrides{"dist.ranks=4", "train.global_batch_size=16"}},
      {"scheduler.lr_decay_style", "linear", kNumbers},
      {"scheduler.lr_decay_iters", "5", kNumbers},
      {"scheduler.lr_warmup_iters", "2", kNumbers, {}, {"3"}},
      {"scheduler.lr_warmup_fraction", "0.5", kNumbers},
      {"scheduler.lr_warmup_init", "1e-3", kNumbers, {"scheduler.lr_warmup_iters=2"}, {"1"}},
      {"scheduler.lr_wsd_decay_style", "linear", kNumbers, wsd},
      {"scheduler.lr_wsd_decay_iters", "1", kNumbers, wsd},
      {"scheduler.start_weight_decay", "2", kNumbers, decays, {"4"}},
      {"scheduler.end_weight_decay", "2", kNumbers, decays},
      {"scheduler.weight_decay_incr_style", "cosine", kNumbers, decays},
  };
}

std::vector<FieldCase> environment_cases() {
  const Overrides kDynamic =
      kFp16 + Overrides{"mixed_precision.initial_loss_scale=64", "train.train_iters=4"};
  // A value so large that gradients overflow.
  const Overrides kOverflow =
      kFp16 + Overrides{"mixed_precision.initial_loss_scale=1e30", "train.train_iters=4"};
  return {
      {"dist.ranks", "2", kRecord},
      {"dist.device", "cuda"},
      {"dist.cpu_isa", "avx2"},
      // The rate is shown as a share of the peak of the same number of threads.
      {"dist.threads_per_rank", "2", kFiles},
      {"dist.distributed_timeout_minutes",
       "1e-9",
       kSaid,
       kDp,
       {},
       "says when a rank that does not come is noticed, and there is one alone"},
      {"dist.use_tp_pp_dp_mapping", "true", kNotes,
       kPp + Overrides{"dist.ranks=4", "train.global_batch_size=16", "dist.nvlink_domain_size=2"}},
      {"dist.nvlink_domain_size",
       "2",
       kNotes,
       {"dist.ranks=4", "train.global_batch_size=8"},
       {},
       "looks for groups across domains, and there are no groups"},
      {"dist.cluster", "dgx-h100", kNotes},
      {"mixed_precision.recipe", "fp16_mixed"},
      {"mixed_precision.loss_scale", "8", kNumbers, kFp16},
      {"mixed_precision.initial_loss_scale", "32", kNumbers, kDynamic, {"0.5"}},
      {"mixed_precision.min_loss_scale", "1e30", kNumbers, kOverflow},
      {"mixed_precision.loss_scale_window", "1", kNumbers, kDynamic},
      {"mixed_precision.hysteresis", "1", kNumbers, kOverflow},
      {"mixed_precision.fp8", "hybrid", kNumbers, kFp8, {"e5m2"}},
      {"mixed_precision.fp8_recipe", "blockwise", kNumbers, kFp8},
      {"mixed_precision.fp8_wgrad", "false", kNumbers, kFp8},
      {"mixed_precision.fp8_dot_product_attention", "true", kNumbers, kCurrentFp8},
      {"mixed_precision.fp8_multi_head_attention", "true", kNumbers,
       kCurrentFp8 + Overrides{"mixed_precision.fp8_dot_product_attention=true"}},
      {"mixed_precision.fp8_local_amax", "true", kRecord, kTp + kCurrentFp8},
      {"mixed_precision.tp_only_amax_red", "true", kRecord, kDp + kDelayedFp8},
      {"mixed_precision.fp8_margin", "2", kNumbers, kDelayedFp8},
      {"mixed_precision.fp8_amax_history_len", "2", kRecord, kDelayedFp8},
      {"mixed_precision.fp8_amax_compute_algo", "most_recent", kNumbers, kDelayedFp8},
      {"mixed_precision.fp8_param_gather", "true", kRecord, kDp + kDelayedFp8},
      {"mixed_precision.fp4_param_gather", "true", kRecord, kDp + kFp4},
      {"mixed_precision.reuse_grad_buf_for_mxfp8_param_ag",
       "true",
       kRecord,
       kDp + kFp8,
       {},
       {},
       {},
       {},
       {"mixed_precision.fp8_param_gather=true"}},
      {"mixed_precision.first_last_layers_bf16", "true", kNumbers, kFp8},
      {"mixed_precision.num_layers_at_start_in_bf16",
       "0",
       kNumbers,
       kFp8 + Overrides{"mixed_precision.first_last_layers_bf16=true"},
       {"9"}},
      {"mixed_precision.num_layers_at_end_in_bf16",
       "0",
       kNumbers,
       kFp8 + Overrides{"mixed_precision.first_last_layers_bf16=true"},
       {"9"}},
      {"mixed_precision.fp4", "e2m1", kNumbers, kBf16},
      {"mixed_precision.layers_in_bf16", "[mlp.down]", kNumbers, kFp8, {"[mlp.fc2]"}},
      {"tensor_inspect.enabled", "true", kFiles, kFp8},
      {"tensor_inspect.interval", "2", kFiles, kFp8 + Overrides{"tensor_inspect.enabled=true"}},
      {"rng.seed", "7", kNumbers},
  };
}

std::vector<FieldCase> graph_cases() {
  const std::string runs = "exact/cuda/step_graph_test.cpp",
                    connections = "unit/cuda_host/nccl_options_test.cpp",
                    launched = "exact/cuda/launch_settings_test.cpp",
                    products = "exact/cuda/product_connections_test.cpp";
  return {
      {"model.cuda_graph_impl",
       "full_iteration",
       kNotes,
       {},
       {},
       "",
       runs,
       "HaveTheBitsOfStepsWithout"},
      {"model.cuda_graph_modules",
       "[attn]",
       kNotes,
       {},
       {},
       "",
       "unit/run/graph_config_test.cpp",
       "model.cuda_graph_modules"},
      {"model.cuda_graph_warmup_steps", "2", kNotes, {}, {}, "", runs, "cuda_graph_warmup_steps"},
      {"dist.product_algorithms_path",
       "algorithms.json",
       kNotes,
       {},
       {},
       "",
       "exact/cuda/product_algorithms_test.cpp",
       "product_algorithms_path"},
      {"dist.nccl_communicator_config_path",
       "groups.yaml",
       kNotes,
       {},
       {},
       "",
       "unit/comm/nccl_options_test.cpp",
       "nccl_communicator_config_path"},
      {"dist.nccl_blocking", "true", kNotes, {}, {}, "", connections, "Blocking"},
      {"dist.nccl_multiprocessors", "32", kNotes, {}, {}, "", connections, "Multiprocessors"},
      {"dist.use_sharp", "true", kNotes, {}, {}, "", connections, "use_sharp"},
      {"ddp.nccl_ub", "true", kNotes, {}, {}, "", connections, "nccl_ub"},
      {"ddp.disable_symmetric_registration",
       "true",
       kNotes,
       {},
       {},
       "",
       "unit/run/symmetric_memory_test.cpp",
       "disable_symmetric_registration"},
      {"dist.distributed_backend", "gloo", kNotes, {}, {}, "", launched, "backend=gloo"},
      {"model.pipeline_model_parallel_comm_backend",
       "nccl",
       kNotes,
       {},
       {},
       "",
       launched,
       "pipeline_model_parallel_comm_backend"},
      {"model.deterministic_mode",
       "true",
       kNotes,
       {},
       {},
       "",
       launched,
       "TellsNcclToLeaveNothingToSwitches"},
      {"dist.high_priority_stream_groups",
       "[tp]",
       kNotes,
       {},
       {},
       "",
       "exact/cuda/stream_priority_test.cpp",
       "NamedGroupsGoFirstAlone"},
      {"dist.vboost", "1", kNotes, {}, {}, "", launched, "dist.vboost=1"},
      {"dist.numactl",
       "true",
       kNotes,
       {},
       {},
       "binds ranks where the machine has several memory nodes",
       "unit/run/rank_binding_test.cpp",
       "RanksThatFollowEachOtherShareANode"},
      {"comm_overlap.num_sm", "4", kNotes, {}, {}, "", products, "num_sm"},
      {"comm_overlap.cga_size", "2", kNotes, {}, {}, "", products, "cga_size"},
      {"comm_overlap.set_sm_margin",
       "true",
       kNotes,
       {},
       {},
       "",
       products,
       "set_sm_margin",
       {"comm_overlap.num_sm=4"}},
      {"comm_overlap.atomic_gemm",
       "true",
       kNotes,
       {},
       {},
       "",
       "unit/nn/gemm_overlap_test.cpp",
       "atomic_gemm"},
      {"comm_overlap.use_ce", "true", kNotes, {}, {}, "", products, "use_ce"},
  };
}

std::vector<FieldCase> variable_cases() {
  std::vector<FieldCase> cases;
  for (const std::string_view name : EnvironmentConfig::kNames) {
    cases.push_back({"env_vars." + std::string(name),
                     "1",
                     kNotes,
                     {},
                     {},
                     "",
                     "unit/run/environment_config_test.cpp",
                     "IsSetWhereItIsNotSetAlready"});
  }
  return cases;
}

std::vector<FieldCase> logger_cases() {
  const Overrides history{"profiling.record_memory_history=true", "profiling.profile_step_start=1",
                          "profiling.profile_step_end=2",
                          "profiling.memory_snapshot_path=$SAVE/memory.json"};
  return {
      {"logger.log_interval", "2", kFiles},
      {"logger.tensorboard_dir", "null", kFiles},
      {"logger.flops", "full", kFiles},
      {"profiling.trace",
       "true",
       kFiles,
       {"profiling.profile_step_start=1", "profiling.profile_step_end=2"}},
      {"profiling.use_nsys_profiler",
       "true",
       kNotes,
       {"profiling.profile_step_start=1", "profiling.profile_step_end=2"},
       {},
       "",
       "exact/cuda/profiler_window_test.cpp",
       "profiling.use_nsys_profiler=true"},
      {"profiling.nsys_trace",
       "[cuda]",
       kNotes,
       {},
       {},
       "",
       "exact/cuda/launch_settings_test.cpp",
       "ARunThatWaitsForAProfilerSaysHowToAttachOne"},
      {"profiling.profile_step_start", "0", kFiles, kTrace, {"3"}},
      {"profiling.profile_step_end", "3", kFiles, kTrace, {"1"}},
      {"profiling.profile_ranks", "[1]", kFiles, kTrace + kDp, {"[2]"}},
      {"profiling.record_shapes", "true", kFiles, kTrace},
      {"profiling.record_memory_history", "true", kFiles,
       history + Overrides{"profiling.record_memory_history=false"}},
      {"profiling.memory_snapshot_path", "$SAVE/other_memory.json", kFiles, history},
  };
}

/// Fields whose effect another test shows.
std::vector<FieldCase> proven_cases() {
  const char* const middle = "unit/data/fill_in_middle_test.cpp";
  const char* const spans = "unit/data/span_dataset_test.cpp";
  const char* const knobs = "exact/train/checkpoint_knobs_test.cpp";
  const char* const cache = "unit/data/index_cache_test.cpp";
  const auto proven = [](const char* field, const char* other, const char* file, const char* test) {
    FieldCase one{field, other};
    one.proof_file = file, one.proof_test = test;
    return one;
  };
  std::vector<FieldCase> all{
      proven("dataset.fim_rate", "0.5", middle, "RatesAreShares"),
      proven("dataset.fim_spm_rate", "1", middle, "fim_spm_rate"),
      proven("dataset.fim_split_sample", "x", middle, "FragmentsAreTurnedAroundOneByOne"),
      proven("dataset.fim_fragment_rate", "1", middle, "FragmentsAreTurnedAroundOneByOne"),
      proven("dataset.fim_no_prefix", "x", middle, "WhatBeginsWithAPrefixStays"),
      proven("dataset.fim_prefix_token", "x", middle, "TokensThatAreMissingAreNamedTogether"),
      proven("dataset.fim_middle_token", "x", middle, "TokensThatAreMissingAreNamedTogether"),
      proven("dataset.fim_suffix_token", "x", middle, "TokensThatAreMissingAreNamedTogether"),
      proven("dataset.fim_pad_token", "x", middle, "TokensThatAreMissingAreNamedTogether"),
      proven("dataset.fim_eod_token", "x", middle, "TokensThatAreMissingAreNamedTogether"),
      proven("dataset.masking_probability", "0.3", spans, "ARowFollowsFromTheFields"),
      proven("dataset.mean_noise_span_length", "2", spans, "ARowFollowsFromTheFields"),
      proven("dataset.short_sequence_probability", "1", spans, "ShortRowsLeaveOutTheRest"),
      proven("dataset.defer_npy_index_mmap", "true", cache, "defer_npy_index_mmap = true"),
      proven("dataset.num_dataset_builder_threads", "2", cache, "num_dataset_builder_threads = 2"),
      proven("checkpoint.save_rng", "false", knobs, "WithoutTheSeedARunGoesOnIfItIsTold"),
      proven("checkpoint.dist_ckpt_strictness", "log_all", knobs, "ATensorThatTheCheckpointLacks"),
      proven("checkpoint.fully_parallel_load", "true", knobs, "fully_parallel_load"),
      proven("train.check_weight_hash_across_dp_replicas_interval", "1",
             "fault/train/differing_replica_test.cpp", "StopsTheRunAndIsNamed"),
  };
  for (FieldCase& one : all) {
    if (one.field.starts_with("checkpoint."))
      one.quiet = "says how checkpoints are written or read";
    if (one.field == "dataset.fim_rate")
      one.with = kData + Overrides{"tokenizer.tokenizer_model=$TOKENIZER", "model.vocab_size=2048"};
    if (one.field == "dataset.defer_npy_index_mmap")
      one.with = kData + Overrides{"dataset.path_to_cache=$OUT", "dataset.fast_cache_load=true"};
    if (one.field.starts_with("train.")) one.quiet = "looks for copies that differ, and none does";
  }
  return all;
}

std::vector<FieldCase> coming_cases() {
  const Overrides more_rows{"dist.ranks=4", "train.global_batch_size=16"};
  const Overrides schedule = kResume + Overrides{"optimizer.lr=1e-3"};
  const Overrides split{"dataset.mock=false", "model.vocab_size=1024", "validation.eval_iters=1",
                        "dataset.blend_per_split=[[$CORPUS_A], [$CORPUS_B, $CORPUS_A], null]"};
  return {
      {"train.train_samples", "16", kNumbers, {"-train.train_iters", "train.train_samples=12"}},
      {"train.rampup_batch_size", "[2, 2, 4]", kNumbers, {}, {"[2]"}},
      {"train.decrease_batch_size_if_needed",
       "true",
       kSaid,
       {"train.global_batch_size=5"},
       {},
       "rounds a batch that does not divide, and this one does"},
      {"train.iterations_to_skip", "[2]", kNumbers},
      {"optimizer.decoupled_lr", "5e-2", kNumbers},
      {"optimizer.decoupled_min_lr", "2e-2", kNumbers, {"optimizer.decoupled_lr=5e-2"}, {"1"}},
      {"scheduler.lr_decay_samples", "20", kNumbers},
      {"scheduler.lr_warmup_samples", "8", kNumbers},
      {"scheduler.override_opt_param_scheduler", "false", kSaid, schedule, {}, kOnlyResumed},
      {"scheduler.use_checkpoint_opt_param_scheduler",
       "true",
       kNumbers,
       schedule,
       {},
       kOnlyResumed},
      {"ddp.grad_reduce_in_bf16", "true", kRecord, kDp + kBf16},
      {"ddp.check_for_large_grads", "true"},
      {"dist.align_grad_reduce", "false", kRecord, kVpp + more_rows},
      {"logger.log_throughput", "false", kFiles},
      {"logger.timing_log_level", "1", kFiles},
      {"logger.log_params_norm", "true", kFiles},
      {"logger.log_num_zeros_in_grad", "true", kFiles},
      {"logger.log_memory_to_tensorboard", "true", kFiles},
      {"logger.moe_per_layer_logging", "true", kFiles, kMoe},
      {"dataset.path_to_cache", "$SAVE/cache", kFiles, kData},
      {"dataset.dataloader_type", "cyclic", kNumbers, kData},
      {"dataset.fast_cache_load", "true", kSaid, kData + Overrides{"dataset.path_to_cache=$OUT"}},
      {"validation.multiple_validation_sets", "true", kFiles, split},
      {"validation.full_validation", "true", kNumbers,
       kData + Overrides{"validation.eval_iters=1"}},
      {"checkpoint.fully_parallel_save", "false", kFiles,
       kDp + Overrides{"ddp.use_distributed_optimizer=false"}},
  };
}

}  // namespace field_walk

std::vector<FieldCase> field_cases() {
  using namespace field_walk;
  std::vector<FieldCase> all;
  for (auto* cases :
       {model_cases, fusion_cases, layout_cases, data_parallel_cases, train_cases, optimizer_cases,
        environment_cases, data_cases, checkpoint_cases, adapter_cases, logger_cases,
        variable_cases, graph_cases, proven_cases, coming_cases}) {
    for (FieldCase& one : cases()) all.push_back(std::move(one));
  }
  return all;
}

}  // namespace viaduct::test
