#include "run/run_config.h"

#include "base/error.h"
#include "base/thread_pool.h"
#include "config/catalogue.h"
#include "hardware/cluster.h"
#include "ops/cpu/cpu_ops.h"
#include "run/attention_backend.h"
#include "run/cuda_backend.h"
#include "run/packed_weights.h"
#include "run/packing_settings.h"
#include "run/parallel_settings.h"
#include "run/rank_binding.h"
#include "run/run_length.h"
#include "run/sharding_presets.h"
#include "run/symmetric_memory.h"
#include "run/validate.h"

namespace viaduct {
namespace {

// Steps of a run in virtual time without a given length; its steps are all alike.
constexpr int64_t kSimulatedSteps = 3;

}  // namespace

Schema run_schema(RunConfig& config) {
  std::vector<FieldGroup> groups{
      model_fields(config.model),
      parallel_fields(config.parallel),
      ddp_model_fields(config.ddp),
      context_parallel_fields(config.context_parallel),
      tensor_switch_fields(config.tensor_overlap),
      pipeline_fields(config.pipeline),
      fusion_fields(config.fusion),
      recompute_fields(config.recompute),
      offload_fields(config.offload),
      residual_stream_fields(config.mixed_precision),
      packed_weights_fields(config.packing),
      graph_fields(config.graph),
      determinism_fields(config.determinism),
      dist_model_fields(config.dist),
      train_fields(config.train),
      validation_fields(config.validation),
      optimizer_fields(config.optimizer),
      state_fields(config.optimizer_state),
      state_offload_fields(config.state_offload),
      scheduler_fields(config.scheduler),
      ddp_optimizer_fields(config.ddp),
      ddp_fields(config.ddp),
      tensor_overlap_fields(config.tensor_overlap),
      pipeline_overlap_fields(config.pipeline),
      second_memory_fields(config.offload),
      dist_fields(config.dist),
      dist_buffer_fields(config.dist),
      ddp_dist_fields(config.ddp),
      precision_fields(config.mixed_precision),
      dataset_fields(config.dataset),
      fill_in_middle_fields(config.dataset),
      span_fields(config.dataset.spans),
      packing_fields(config.dataset.packing),
      peft_fields(config.peft),
      tokenizer_fields(config.tokenizer),
      checkpoint_fields(config.checkpoint),
      logger_fields(config.logger),
      profiling_fields(config.profiling),
      rng_fields(config.rng),
      tensor_inspect_fields(config.tensor_inspect),
      environment_fields(config.environment),
  };
  groups.insert(groups.end(), catalogue().begin(), catalogue().end());
  return Schema(std::move(groups));
}

LoadedRunConfig load_run_config(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, RunConfig defaults) {
  LoadedRunConfig loaded{std::move(defaults), {}};
  const Schema schema = run_schema(loaded.config);
  Problems problems;
  loaded.outcome = read_config(schema, {file, overrides}, problems);
  check_states(schema, loaded.config.dist.device_kind(), loaded.outcome, problems);
  apply_sharding_presets(loaded.config, loaded.outcome);
  apply_packing(loaded.config, loaded.outcome, problems);
  const bool has_length = loaded.outcome.is_given("train.train_iters") ||
                          loaded.outcome.is_given("train.train_samples");
  if (loaded.config.dist.simulated() && !has_length)
    loaded.config.train.train_iters = kSimulatedSteps;
  // Rules over several fields would only repeat what is wrong with one.
  if (problems.empty()) {
    validate(loaded.config, loaded.outcome, problems);
    const std::string other_memory = why_not_symmetric(loaded.config);
    if (loaded.config.dist.nccl_ub && !loaded.config.dist.disable_symmetric_registration &&
        !other_memory.empty() && loaded.config.dist.on_cuda())
      loaded.outcome.notes.push_back(
          "ddp.nccl_ub: the memory that is registered is not symmetric: " + other_memory);
  }
  problems.throw_if_any();
  return loaded;
}

void resolve(RunConfig& config) {
  config.model.resolve();
  if (!config.model.seq_length.is_auto()) {
    config.dataset.sequence_length.resolve(config.model.seq_length.value());
  }
  config.optimizer.resolve();
  resolve_run_length(config);
  config.scheduler.resolve(config.train.train_iters, config.optimizer.weight_decay,
                           config.train.train_samples);
  resolve_parallel(config);
  config.fusion.resolve(config.model.activation_func.value(), kept_logits_bytes(config));
  config.dist.device.resolve(DeviceKind::cpu);
  const bool on_this_gpu = uses_this_gpu(config);
  if (on_this_gpu) config.cuda_target = cuda_backend().target();
  if (config.dist.simulated()) {
    const Cluster cluster = load_cluster(config.dist.cluster.value_or(""));
    if (!config.cuda_target) config.cuda_target = cluster.gpu.architecture;
    auto& domain = config.dist.nvlink_domain_size;
    if (!domain && !cluster.gpu.is_cpu && cluster.domain > 1) domain = cluster.domain;
  }
  if (config.model.attention_backend.is_auto() && config.model.missing().empty())
    config.model.attention_backend.resolve(automatic_attention(config, on_this_gpu).backend);
  config.dist.symmetric_memory = wants_symmetric_memory(config);
  config.dist.cpu_isa.resolve(best_cpu_isa());
  resolve_packed_weights(config);
  const bool in_nodes =
      config.dist.device_kind() == DeviceKind::cpu && config.dist.numactl.value_or(false);
  config.dist.threads_per_rank.resolve(in_nodes ? threads_in_node(config.dist.ranks)
                                                : default_pool_threads(config.dist.ranks));
  config.checkpoint.load.resolve(config.checkpoint.save);
  const auto& save = config.checkpoint.save;
  config.logger.tensorboard_dir.resolve(save ? std::optional(*save + "/tensorboard")
                                             : std::nullopt);

  Problems problems;
  for (const std::string& name : config.model.missing()) {
    problems.add("{}: not given; give it{}", name,
                 name == "model.vocab_size"
                     ? ", or a tokenizer (tokenizer.tokenizer_model), or a model's folder "
                       "(checkpoint.pretrained_checkpoint, model.hf_config)"
                     : ", or a model's folder (checkpoint.pretrained_checkpoint, model.hf_config)");
  }
  if (problems.empty()) validate(config, {}, problems);
  problems.throw_if_any();
}

std::string to_yaml(RunConfig config) {
  return to_yaml(run_schema(config));
}

}  // namespace viaduct
