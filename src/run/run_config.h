#pragma once
// The configuration of a whole run: every folder's structs side by side, read from one YAML file
// and overrides, checked together, resolved, and printed back. This is where the application
// composes the groups; nothing registers itself.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_config.h"
#include "comm/dist_config.h"
#include "config/load.h"
#include "data/dataset_config.h"
#include "hardware/cuda_target.h"
#include "model/adapter_config.h"
#include "model/model_fields.h"
#include "model/offload_config.h"
#include "model/recompute_config.h"
#include "nn/context_parallel_config.h"
#include "nn/fusion_config.h"
#include "nn/tensor_parallel_config.h"
#include "optim/optimizer_config.h"
#include "optim/state_config.h"
#include "optim/state_offload_config.h"
#include "pipeline/pipeline_config.h"
#include "precision/precision_config.h"
#include "run/determinism.h"
#include "run/environment_config.h"
#include "run/graph_config.h"
#include "run/tensor_inspect_config.h"
#include "run/train_config.h"
#include "sharding/ddp_config.h"
#include "sharding/packed_weights_config.h"

namespace viaduct {

struct RunConfig {
  ModelFields model;
  // In sections `model` and `comm_overlap`, as in Megatron.
  ParallelConfig parallel;
  TensorOverlapConfig tensor_overlap;
  ContextParallelConfig context_parallel;
  PipelineConfig pipeline;
  FusionConfig fusion;
  RecomputeConfig recompute;
  OffloadConfig offload;  // in `model` and `memory`
  PackedWeightsConfig packing;
  GraphConfig graph;              // in section `model`
  DeterminismConfig determinism;  // in section `model`
  TrainConfig train;
  ValidationConfig validation;
  OptimizerConfig optimizer;
  StateConfig optimizer_state;       // in section `optimizer`
  StateOffloadConfig state_offload;  // in section `optimizer`
  SchedulerConfig scheduler;
  DdpConfig ddp;
  DistConfig dist;
  PrecisionConfig mixed_precision;
  DatasetConfig dataset;
  PeftConfig peft;
  TokenizerConfig tokenizer;
  CheckpointConfig checkpoint;
  LoggerConfig logger;
  ProfilingConfig profiling;
  RngConfig rng;
  TensorInspectConfig tensor_inspect;
  EnvironmentConfig environment;  // section `env_vars`
  /// Of a dry run for a GPU (`train --dry-run --target cuda:…`); no field of the configuration.
  std::optional<CudaTarget> cuda_target;
};

/// Every known name: the groups bound to `config` (which must outlive the result) and the catalogue
/// of what is planned.
Schema run_schema(RunConfig& config);

/// A configuration, and which of its fields the user gave.
struct LoadedRunConfig {
  RunConfig config;
  ConfigOutcome outcome;  // which fields were given; notes to show at start
};

/// Reads `file` (empty: none) and overrides over `defaults` (a subcommand's own: `probe` starts
/// from fp32), and checks what can be checked before model and tokenizer files are opened. `auto`
/// values stay until `resolve`. Throws one ConfigError with all problems.
LoadedRunConfig load_run_config(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, RunConfig defaults = {});

/// Replaces every `auto` by its value on this machine. Call it when model folder and tokenizer have
/// filled in `model` (vocab_size and the rest of an existing architecture). Throws ConfigError
/// naming fields that the user did not give.
void resolve(RunConfig& config);

/// The configuration as YAML that `load_run_config` reads back to the same values; after `resolve`
/// it holds no `auto` except where `auto` itself is the setting (model.attention_backend).
std::string to_yaml(RunConfig config);

}  // namespace viaduct
